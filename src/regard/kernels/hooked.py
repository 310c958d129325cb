"""Whether a layer may be computed from its weights, without a call of it."""

from torch import nn

_KINDS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_hooked(*modules: nn.Module) -> bool:
    """Whether somebody listens to these modules, or makes something else of them, so that they have to be called."""
    if nn.modules.module._has_any_global_hook() or any("forward" in vars(module) for module in modules):
        return True
    return any(getattr(module, kind) for module in modules for kind in _KINDS)


def does_as(module: nn.Module, *kinds: type[nn.Module]) -> bool:
    """Whether the module does what one of these classes does, whoever listens: a subclass may do something else."""
    return type(module).forward in [kind.forward for kind in kinds] and "forward" not in vars(module)
