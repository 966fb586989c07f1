"""eth_call, eth_estimateGas: run something without leaving a trace."""

from __future__ import annotations

import time
from typing import Any

from chainmemory.node.calls import TIME_LIMIT, AccountOverride, Caller, CallRefused, CallTimeout, Message
from chainmemory.node.evm import Revert, VMError
from chainmemory.node.rpc import params
from chainmemory.node.rpc.context import Context
from chainmemory.node.rpc.errors import INVALID_PARAMS, REVERTED, RpcError
from chainmemory.node.rpc.params import BlockRef, ParamError
from chainmemory.node.rpc.registry import Param, method
from chainmemory.node.rpc.shapes import hexed

LATEST = Param(params.block, BlockRef(tag="latest"))
_ERROR_SELECTOR = bytes.fromhex("08c379a0")


class CallArguments:
    """A call's JSON object, read; limits and defaults are the block's business."""

    def __init__(self, value: Any) -> None:
        given = params.transaction_object(value)

        def read(name: str, parser: params.Parser, default: Any = None) -> Any:
            return default if given.get(name) is None else parser(given[name])

        self.sender: bytes = read("from", params.address, bytes(20))
        self.to: bytes = read("to", params.address, b"")
        self.gas: int | None = read("gas", params.quantity64)
        self.value: int = read("value", params.quantity256, 0)
        data, payload = read("data", params.data), read("input", params.data)
        self.data: bytes = (payload if payload is not None else data) or b""  # the newer name wins
        price = read("gasPrice", params.quantity256)
        self.max_fee: int | None = read("maxFeePerGas", params.quantity256, price)
        self.tip: int | None = read("maxPriorityFeePerGas", params.quantity256, price)
        if price is not None and (self.max_fee != price or self.tip != price):
            raise ParamError("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified")
        if self.max_fee is not None and self.tip is not None and self.max_fee < self.tip:
            raise ParamError(f"maxFeePerGas ({self.max_fee}) < maxPriorityFeePerGas ({self.tip})")
        self.chain_id: int | None = read("chainId", params.quantity256)
        self.access_list = tuple(_access(item) for item in read("accessList", _list, []))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > 1_000:
        raise ParamError("the access list must be an array of at most 1000 entries")
    return value


def _access(value: Any) -> tuple[bytes, tuple[int, ...]]:
    entry = params.json_object(value)
    keys = [params.hash32(key) for key in _list(entry.get("storageKeys") or [])]
    return params.address(entry.get("address")), tuple(int.from_bytes(key, "big") for key in keys)


def _overrides(value: Any) -> dict[bytes, AccountOverride]:
    """Read the state a call pretends: address → balance, nonce, code, state or stateDiff."""
    overrides = {}
    for name, account in params.json_object(value).items():
        given = params.json_object(account)
        whole, single = given.get("state"), given.get("stateDiff")
        if whole is not None and single is not None:
            raise ParamError(f"account {name} has both 'state' and 'stateDiff'")
        slots = params.json_object(whole if whole is not None else single or {})
        overrides[params.address(name)] = AccountOverride(
            balance=_optional(given, "balance", params.quantity256),
            nonce=_optional(given, "nonce", params.quantity64),
            code=_optional(given, "code", params.data),
            storage={
                int.from_bytes(params.hash32(slot), "big"): int.from_bytes(params.hash32(content), "big")
                for slot, content in slots.items()
            },
            whole_storage=whole is not None,
        )
    return overrides


def _optional(given: dict[str, Any], name: str, parser: params.Parser) -> Any:
    return None if given.get(name) is None else parser(given[name])


@method("eth_call", CallArguments, LATEST, Param(_overrides, {}), slow=True)
def call(
    context: Context, arguments: CallArguments, ref: BlockRef, overrides: dict[bytes, AccountOverride]
) -> str:
    caller = _caller(context, ref, overrides)
    try:
        computation = caller.run(_message(context, arguments, context.budget.call_gas))
    except (CallRefused, CallTimeout, VMError) as error:
        raise _explain(context, error) from None
    if computation.is_error:
        raise _explain(context, computation.error)
    return hexed(computation.output)


@method("eth_estimateGas", CallArguments, LATEST, Param(_overrides, {}), slow=True)
def estimate_gas(
    context: Context, arguments: CallArguments, ref: BlockRef, overrides: dict[bytes, AccountOverride]
) -> str:
    caller = _caller(context, ref, overrides)
    try:
        limit = min(caller.header.gas_limit, context.budget.call_gas)
        return hex(caller.estimate(_message(context, arguments, limit)))
    except (CallRefused, CallTimeout, VMError) as error:
        raise _explain(context, error) from None


def _caller(context: Context, ref: BlockRef, overrides: dict[bytes, AccountOverride]) -> Caller:
    return Caller(
        context.chain,
        context.header(ref),
        ref.tag == "pending",
        overrides,
        min(context.deadline, time.monotonic() + TIME_LIMIT),
    )


def _message(context: Context, arguments: CallArguments, limit: int) -> Message:
    if arguments.chain_id not in (None, context.genesis.chain_id):
        raise RpcError(
            f"chainId does not match node's (have={arguments.chain_id}, want={context.genesis.chain_id})",
            INVALID_PARAMS,
        )
    return Message(
        sender=arguments.sender,
        to=arguments.to,
        gas=min(arguments.gas or limit, limit),
        value=arguments.value,
        data=arguments.data,
        max_fee=arguments.max_fee,
        tip=arguments.tip if arguments.tip is not None else 0,
        access_list=arguments.access_list,
    )


def _explain(context: Context, error: Exception) -> RpcError:
    """Turn what stopped a call into geth's error."""
    if isinstance(error, CallTimeout):
        return RpcError(f"execution aborted (timeout = {min(TIME_LIMIT, context.budget.seconds):g}s)")
    if isinstance(error, CallRefused):
        return RpcError(str(error))
    if isinstance(error, Revert):
        output = bytes(error.args[0]) if error.args and isinstance(error.args[0], bytes) else b""
        reason = _revert_reason(output)
        return RpcError(
            f"execution reverted: {reason}" if reason else "execution reverted", REVERTED, hexed(output)
        )
    return RpcError(_VM_WORDS.get(type(error).__name__, str(error) or type(error).__name__))


_VM_WORDS = {
    "OutOfGas": "out of gas",
    "InsufficientStack": "stack underflow",
    "FullStack": "stack limit reached 1024",
    "InvalidJumpDestination": "invalid jump destination",
    "InvalidInstruction": "invalid opcode",
    "WriteProtection": "write protection",
    "StackDepthLimit": "max call depth exceeded",
    "InsufficientFunds": "insufficient balance for transfer",
    "ContractCreationCollision": "contract address collision",
}


def _revert_reason(output: bytes) -> str | None:
    """Return the text of a Solidity `revert("…")`, None for anything else."""
    if output[:4] != _ERROR_SELECTOR or len(output) < 68:
        return None
    length = int.from_bytes(output[36:68], "big")
    text = output[68 : 68 + length]
    if len(text) != length:
        return None
    return text.decode("utf-8", "replace")
