"""Small contracts, assembled here so that the node's tests need no compiler."""

from __future__ import annotations

_OPCODES = {
    "STOP": 0x00,
    "ADD": 0x01,
    "SUB": 0x03,
    "LT": 0x10,
    "ISZERO": 0x15,
    "ADDRESS": 0x30,
    "ORIGIN": 0x32,
    "CALLER": 0x33,
    "CALLVALUE": 0x34,
    "CALLDATALOAD": 0x35,
    "CALLDATASIZE": 0x36,
    "CALLDATACOPY": 0x37,
    "CODECOPY": 0x39,
    "GASPRICE": 0x3A,
    "BLOCKHASH": 0x40,
    "COINBASE": 0x41,
    "TIMESTAMP": 0x42,
    "NUMBER": 0x43,
    "DIFFICULTY": 0x44,
    "GASLIMIT": 0x45,
    "SELFBALANCE": 0x47,
    "BASEFEE": 0x48,
    "CHAINID": 0x46,
    "POP": 0x50,
    "MLOAD": 0x51,
    "MSTORE": 0x52,
    "SLOAD": 0x54,
    "SSTORE": 0x55,
    "JUMP": 0x56,
    "JUMPI": 0x57,
    "GAS": 0x5A,
    "JUMPDEST": 0x5B,
    "DUP1": 0x80,
    "LOG0": 0xA0,
    "LOG1": 0xA1,
    "LOG2": 0xA2,
    "LOG3": 0xA3,
    "LOG4": 0xA4,
    "CREATE": 0xF0,
    "CALL": 0xF1,
    "CREATE2": 0xF5,
    "SELFDESTRUCT": 0xFF,
    "STATICCALL": 0xFA,
    "RETURN": 0xF3,
    "REVERT": 0xFD,
    "INVALID": 0xFE,
}


def assemble(text: str) -> bytes:
    """Return bytecode for opcode names and numbers (`0x…` pushes exactly its bytes) separated by space."""
    code = bytearray()
    for word in text.split():
        if word.startswith("0x"):
            data = bytes.fromhex(word[2:])
            code += bytes([0x5F + len(data)]) + data
        else:
            code.append(_OPCODES[word])
    return bytes(code)


def creation(runtime: bytes) -> bytes:
    """Return creation code that installs `runtime`."""
    size = f"0x{len(runtime):04x}"
    head = assemble(f"{size} 0x000c 0x00 CODECOPY {size} 0x00 RETURN")
    head = head.ljust(12, b"\0") if len(head) <= 12 else head
    offset = len(head)
    head = assemble(f"{size} 0x{offset:04x} 0x00 CODECOPY {size} 0x00 RETURN")
    return head.ljust(offset, b"\0") + runtime


ANCHOR = assemble(
    # storage[calldata[0]] = calldata[32]; log the value under three topics: 0xaa…, the key, the sender
    "0x20 CALLDATALOAD DUP1 0x00 CALLDATALOAD SSTORE 0x00 MSTORE "
    f"CALLER 0x00 CALLDATALOAD 0x{'aa' * 32} 0x20 0x00 LOG3 "
    "0x00 CALLDATALOAD SLOAD 0x00 MSTORE 0x20 0x00 RETURN"
)
"""Writes like an anchor does, and returns what it stored."""

REVERT_WITH_TEXT = assemble(
    f"0x{'08c379a0'.ljust(64, '0')} 0x00 MSTORE 0x20 0x04 MSTORE 0x03 0x24 MSTORE "
    f"0x{b'no!'.hex().ljust(64, '0')} 0x44 MSTORE 0x64 0x00 REVERT"
)
SPIN = assemble("JUMPDEST 0x00 JUMP")
RECURSE = assemble("0x00 0x00 0x00 0x00 0x00 ADDRESS GAS CALL POP STOP")
"""Calls itself as deep as gas and the EVM allow."""

CONTEXT = assemble(
    "NUMBER 0x00 MSTORE TIMESTAMP 0x20 MSTORE COINBASE 0x40 MSTORE BASEFEE 0x60 MSTORE CHAINID 0x80 MSTORE "
    "CALLER 0xa0 MSTORE GASPRICE 0xc0 MSTORE 0xe0 0x00 RETURN"
)
"""Returns the block number, time, fee recipient, base fee, chain id, sender and gas price."""

WITNESS = assemble(
    # everything a block tells a contract, into storage, so that the state root depends on it
    "NUMBER 0x00 SSTORE TIMESTAMP 0x01 SSTORE COINBASE 0x02 SSTORE DIFFICULTY 0x03 SSTORE "
    "GASLIMIT 0x04 SSTORE BASEFEE 0x05 SSTORE CHAINID 0x06 SSTORE SELFBALANCE 0x07 SSTORE "
    "0x01 NUMBER SUB BLOCKHASH 0x08 SSTORE GASPRICE 0x09 SSTORE CALLVALUE 0x0a SSTORE ORIGIN 0x0b SSTORE "
    # a child that destroys itself (CALLER SELFDESTRUCT) with some money, then sha256 of the first word
    "0x33ff 0x00 MSTORE 0x02 0x1e 0x01 CREATE 0x0c SSTORE NUMBER 0x02 0x1e 0x00 CREATE2 0x0d SSTORE "
    "0x20 0x20 0x20 0x00 0x02 GAS STATICCALL 0x0e SSTORE 0x20 MLOAD 0x0f SSTORE"
)
"""Writes down what it sees of its block and transaction, makes and destroys contracts, calls a precompile."""
