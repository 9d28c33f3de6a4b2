"""`import rushlight.as_torch`: from here on `import torch` finds Rushlight in this process."""

from rushlight.names.install import install_as_torch, is_installed

if not is_installed():
    install_as_torch()
