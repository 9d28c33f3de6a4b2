"""`torch.utils.model_zoo`: the older name of `torch.hub.load_state_dict_from_url`."""

from tqdm import tqdm  # noqa: F401  (PyTorch has it here)

from rushlight import names as _names
from rushlight.hub import download_url_to_file as _download_url_to_file  # noqa: F401
from rushlight.hub import load_state_dict_from_url as load_url

__getattr__ = _names.getattr_of(__name__)
__all__ = ["load_url"]
