"""The most memory that training took."""

import sys

import torch


def peak_memory(device: torch.device) -> int:
    """Bytes: the most that tensors took on a CUDA device, elsewhere the most that the whole process has taken."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        import psutil

        return psutil.Process().memory_info().peak_wset
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB
