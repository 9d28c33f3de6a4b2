"""torch.fft: discrete Fourier transforms by the host's library (numpy's pocketfft)."""

from rushlight.tensors.functions_fft import FFT as _FFT

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

fft = _FFT["fft"]
fft2 = _FFT["fft2"]
fftfreq = _FFT["fftfreq"]
fftn = _FFT["fftn"]
fftshift = _FFT["fftshift"]
hfft = _FFT["hfft"]
hfft2 = _FFT["hfft2"]
hfftn = _FFT["hfftn"]
ifft = _FFT["ifft"]
ifft2 = _FFT["ifft2"]
ifftn = _FFT["ifftn"]
ifftshift = _FFT["ifftshift"]
ihfft = _FFT["ihfft"]
ihfft2 = _FFT["ihfft2"]
ihfftn = _FFT["ihfftn"]
irfft = _FFT["irfft"]
irfft2 = _FFT["irfft2"]
irfftn = _FFT["irfftn"]
rfft = _FFT["rfft"]
rfft2 = _FFT["rfft2"]
rfftfreq = _FFT["rfftfreq"]
rfftn = _FFT["rfftn"]
