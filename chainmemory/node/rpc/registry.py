"""The table of methods, and how their positional parameters are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.errors import INVALID_PARAMS, RpcError, invalid_argument
from chainmemory.node.rpc.params import ParamError, Parser

Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)

_REQUIRED = object()


@dataclass(frozen=True)
class Param:
    """One positional parameter; without a default it must be given (null counts as not given)."""

    parser: Parser
    default: Any = _REQUIRED


@dataclass(frozen=True)
class Method:
    """A JSON-RPC method."""

    name: str
    params: tuple[Param, ...]
    handler: Handler
    slow: bool = False
    """Whether it may compute or search for seconds; the others answer within milliseconds."""

    def call(self, context: Context, given: Any) -> Any:
        """Read the parameters and run the method; RpcError when either can't be done."""
        return self.handler(context, *self._read(given))

    def _read(self, given: Any) -> list[Any]:
        if given is None:
            given = []
        if not isinstance(given, list):
            raise RpcError("non-array args", INVALID_PARAMS)
        if len(given) > len(self.params):
            raise RpcError(f"too many arguments, want at most {len(self.params)}", INVALID_PARAMS)
        return [self._read_one(i, param, given) for i, param in enumerate(self.params)]

    @staticmethod
    def _read_one(index: int, param: Param, given: Sequence[Any]) -> Any:
        value = given[index] if index < len(given) else None
        if value is None:
            if param.default is _REQUIRED:
                raise RpcError(f"missing value for required argument {index}", INVALID_PARAMS)
            return param.default
        try:
            return param.parser(value)
        except ParamError as error:
            raise invalid_argument(index, str(error)) from None


METHODS: dict[str, Method] = {}


def method(name: str, *params: Param | Parser, slow: bool = False) -> Callable[[H], H]:
    """Register the decorated function as the method `name`; it takes the context, then the parameters."""

    def register(handler: H) -> H:
        read = tuple(param if isinstance(param, Param) else Param(param) for param in params)
        METHODS[name] = Method(name, read, handler, slow)
        return handler

    return register
