"""What a check found: each difference with a code, the place, and a sentence; and how much was looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from chainmemory.errors import IntegrityError, Unavailable


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference."""

    code: str
    """What kind of damage it is, in one word (`memory_missing`, `state_hash`, `onchain_twice`, …)."""
    where: str
    """`memory 7 of <account>`, `version 3 of <project>`, …"""
    words: str


@dataclass
class ProjectChecked:
    """One project, in numbers."""

    project_id: str
    slug: str
    versions: int = 0
    items: int = 0
    anchored: int = 0


@dataclass
class AccountChecked:
    """One account, in numbers."""

    account_id: str
    memories: int = 0
    opened: int = 0
    """Memories whose content was decrypted (not those the client sealed, nor forgotten ones)."""
    ledger_entries: int = 0
    anchored: int = 0
    projects: list[ProjectChecked] = field(default_factory=list)


@dataclass
class Report:
    """A whole check. `chain` says in words what the chain was asked, or why it wasn't."""

    accounts: list[AccountChecked] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    chain: str = ""
    chain_checked: bool = False
    unchecked: str | None = None
    """Why something that was asked for could not be checked."""

    def add(self, code: str, where: str, words: str) -> None:
        self.findings.append(Finding(code, where, words))

    def add_misfits(self, where: str, names: list[str]) -> None:
        """Note columns whose values aren't of the type that ChainMemory writes."""
        self.add(
            "column_type", where, f"It holds a value of another type than was written: {', '.join(names)}."
        )

    def expect(self, code: str, where: str, what: str, wanted: object, found: object) -> bool:
        """Note a difference between what a value must be and what it is; return whether there is none."""
        if wanted == found:
            return True
        self.add(code, where, f"{what} should be {_shown(wanted)}, but is {_shown(found)}.")
        return False

    @property
    def totals(self) -> dict[str, int]:
        counts: Counter[str] = Counter(accounts=len(self.accounts))
        for account in self.accounts:
            counts["memories"] += account.memories
            counts["memories_decrypted"] += account.opened
            counts["ledger_entries"] += account.ledger_entries
            counts["projects"] += len(account.projects)
            counts["anchored"] += account.anchored
            for project in account.projects:
                counts["versions"] += project.versions
                counts["items"] += project.items
                counts["anchored"] += project.anchored
        return dict(counts)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON-able values."""
        return {
            "ok": False if self.findings else None if self.unchecked else True,
            "totals": self.totals,
            "chain": {"checked": self.chain_checked, "words": self.chain},
            "unchecked": self.unchecked,
            "findings": [asdict(finding) for finding in self.findings],
            "accounts": [asdict(account) for account in self.accounts],
        }

    def judge(self) -> None:
        """Return if all was checked and is as it should be.

        Raises IntegrityError where something differs, Unavailable where something could not be checked.
        """
        if self.findings:
            count = len(self.findings)
            raise IntegrityError(
                f"VERIFICATION FAILED: {count} thing{'s differ' if count > 1 else ' differs'}.",
                code="verification_failed",
            )
        if self.unchecked:
            raise Unavailable(f"NOT WHOLLY CHECKED: {self.unchecked}", code="not_checked")


def _shown(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
