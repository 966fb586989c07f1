"""What can go wrong between us and a node, sorted once: what to retry and what to give up on."""

from __future__ import annotations

import re
from enum import StrEnum
from urllib.parse import urlsplit

from chainmemory.errors import ChainMemoryError, ConfigurationError, Unavailable


class ChainUnavailable(Unavailable):
    """The node doesn't answer, answers late, or answers something that isn't JSON-RPC; retrying can work."""

    code = "chain_unavailable"


class NodeRefused(ChainUnavailable):
    """The node answered a read with an error; `rpc_code` is its number, `data` the bytes that came along.

    `words` are the node's own, without its address.
    """

    def __init__(self, message: str, rpc_code: int, data: bytes = b"", words: str = "") -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        self.data = data
        self.words = words


class WrongChain(ConfigurationError):
    """The node serves another chain than the one the settings, or the earlier anchors, name."""

    code = "wrong_chain_id"


class CodeMismatch(ConfigurationError):
    """What lies at a contract's address isn't the contract: wrong address, or a chain that was reset."""

    code = "code_mismatch"


class CallReverted(ChainMemoryError):
    """The contract refused a call; `data` is the revert data (a custom error's selector and arguments)."""

    code = "call_reverted"

    def __init__(self, message: str, data: bytes = b"") -> None:
        super().__init__(message)
        self.data = data


class Refusal(StrEnum):
    """Why a node didn't take a transaction into its pool."""

    ALREADY_KNOWN = "already_known"
    NONCE_TOO_LOW = "nonce_too_low"
    NONCE_TOO_HIGH = "nonce_too_high"
    REPLACEMENT_UNDERPRICED = "replacement_underpriced"
    UNDERPRICED = "underpriced"
    INSUFFICIENT_FUNDS = "insufficient_funds"
    GAS_LIMIT = "gas_limit"
    WRONG_CHAIN = "wrong_chain"
    OTHER = "other"


class TransactionRefused(ChainMemoryError):
    """The node answered, and didn't take the transaction; `refusal` says why."""

    code = "transaction_refused"

    def __init__(self, refusal: Refusal, message: str) -> None:
        super().__init__(message)
        self.refusal = refusal


# Nodes agree on no error codes, only roughly on words. Order matters: the first match wins, so the special
# ("replacement transaction underpriced") stands before the general ("underpriced").
_WORDS: tuple[tuple[Refusal, str], ...] = (
    (
        Refusal.ALREADY_KNOWN,
        r"already known|known transaction|alreadyknown|already imported|already in the pool",
    ),
    (Refusal.NONCE_TOO_LOW, r"nonce too low|nonce_too_low|oldnonce|nonce is too low|nonce below"),
    (Refusal.NONCE_TOO_HIGH, r"nonce too high|nonce_too_high|nonce gap|too distant|noncegap"),
    (
        Refusal.REPLACEMENT_UNDERPRICED,
        r"replacement transaction underpriced|replacementnotallowed|could not replace existing|"
        r"replacement fee too low|gas price too low to replace",
    ),
    (
        Refusal.INSUFFICIENT_FUNDS,
        r"insufficient (funds|balance)|insufficientfunds|upfront cost exceeds|cannot afford|"
        r"does not have enough balance|not enough balance",
    ),
    (
        Refusal.UNDERPRICED,
        r"underpriced|fee cap less than|max fee per gas less than|feetoolow|fee too low|"
        r"gas price (is )?(too low|below)|below configured minimum|less than block base fee",
    ),
    (
        Refusal.GAS_LIMIT,
        r"exceeds? (the )?block gas limit|intrinsic gas too low|gas limit (is )?too (high|low|big)|"
        r"gas limit exceed|exceeds? (the )?maximum|gas cap|out of gas",
    ),
    (
        Refusal.WRONG_CHAIN,
        r"invalid chain ?id|wrong chain|chain ?id mismatch|invalid sender|replay-protected",
    ),
)
_PATTERNS = tuple((refusal, re.compile(words, re.IGNORECASE)) for refusal, words in _WORDS)

# eth-tester names both numbers instead of a direction.
_EXPECTED_NONCE = re.compile(r"invalid transaction nonce: expected (\d+), but got (\d+)", re.IGNORECASE)


def classify(message: str) -> Refusal:
    """Say which refusal a node's error text means, over the wordings of the usual clients."""
    if numbers := _EXPECTED_NONCE.search(message):
        expected, got = int(numbers[1]), int(numbers[2])
        return Refusal.NONCE_TOO_LOW if got < expected else Refusal.NONCE_TOO_HIGH
    return next((refusal for refusal, pattern in _PATTERNS if pattern.search(message)), Refusal.OTHER)


def public_name(url: str) -> str:
    """Return `host:port` of an RPC address: all of it that may be shown.

    Providers put keys into the path and the query as often as into the user part, so none of these survive.
    """
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    try:
        port = parts.port
    except ValueError:
        port = None
    return f"{host or 'node'}:{port}" if port else (host or "node")


def scrub(text: str, url: str) -> str:
    """Cut everything of an RPC address beyond its host out of a text that a node or a library wrote.

    The text is also bounded to 300 characters: it ends up in a row's reason and in an answer.
    """
    parts = urlsplit(url)
    secrets = {url, parts.path, parts.query, parts.netloc.rpartition("@")[0], parts.username, parts.password}
    secrets |= {piece for piece in re.split(r"[/=&]", f"{parts.path}/{parts.query}") if len(piece) >= 8}
    for secret in sorted((s for s in secrets if s and s != "/"), key=len, reverse=True):
        text = text.replace(secret, "…")
    return text if len(text) <= 300 else text[:299] + "…"
