"""What everything stands on: settings, errors, dtypes, devices, events. Knows no tensors."""
