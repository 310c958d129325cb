"""Whether a layer may be computed from its weights, without a call of it."""

from torch import nn


def is_hooked(*modules: object) -> bool:
    """Whether somebody listens to these modules, or makes something else of them, so that they have to be called.

    What is no module is heard by nobody. It is asked at each call, and so looks at what a module has without asking
    the module.
    """
    if nn.modules.module._has_any_global_hook():
        return True
    for module in modules:
        if isinstance(module, nn.Module):
            own = vars(module)
            if own["_forward_hooks"] or own["_forward_pre_hooks"] or "forward" in own:
                return True
            if own["_backward_hooks"] or own["_backward_pre_hooks"]:
                return True
    return False


def does_as(module: nn.Module, *kinds: type[nn.Module]) -> bool:
    """Whether the module does what one of these classes does, whoever listens: a subclass may do something else."""
    return type(module).forward in [kind.forward for kind in kinds] and "forward" not in vars(module)
