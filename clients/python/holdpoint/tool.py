"""A guarded function: the arguments of its calls by name, as they are proposed and approved."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from .wire import Call


@dataclass(frozen=True)
class Tool:
    """A function that only runs when it is permitted, and how its calls are proposed."""

    function: Callable[..., Any]
    name: str
    signature: inspect.Signature
    call: Call
    constraints: str  # the parameter that takes them; "" for none
    timeout: Optional[float]
    cancel_when_stopped: bool

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Dict[str, Any]:
        """The arguments by their names, with defaults: what is proposed, and approved."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named = dict(bound.arguments)
        for parameter in self.signature.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                named.update(named.pop(parameter.name))
        return named

    def takes(self, arguments: Mapping[str, Any]) -> bool:
        try:
            self.signature.bind(**arguments)
        except TypeError:
            return False
        return True


def tool_of(function: Callable[..., Any], call: Call, constraints: str, timeout: Optional[float], cancel_when_stopped: bool) -> Tool:
    signature = inspect.signature(function)
    kinds = {p.kind for p in signature.parameters.values()}
    if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.POSITIONAL_ONLY in kinds:
        raise TypeError(f"{call.tool}: every argument of a guarded tool has a name")
    if constraints:
        if constraints not in signature.parameters:
            raise TypeError(f"{call.tool} has no parameter {constraints}")
        signature = signature.replace(parameters=[p for p in signature.parameters.values() if p.name != constraints])
    return Tool(function, call.tool, signature, call, constraints, timeout, cancel_when_stopped)
