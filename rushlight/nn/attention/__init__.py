"""`torch.nn.attention`: `flex_attention` is a module of it, imported by its full name."""
