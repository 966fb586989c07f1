"""The tables, in SQLAlchemy Core (design.md, SEAMS): what the store remembers, and nothing it could read.

Free text of users is only in `*_blob` columns (encrypted, protocol §4) and in keyed tokens. The exceptions
are the event header (checkable without a key, protocol §5) and project slugs (public names).

Times are `time` strings of fixed width, so text order is time order. Blobs stand last in `memories`, so that
a scan over tokens doesn't read them.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

# Byte order on both engines, whatever the locale of the PostgreSQL database.
Ascii = Text().with_variant(Text(collation="C"), "postgresql")
# SQLite counts up only a column declared INTEGER.
Serial = BigInteger().with_variant(Integer(), "sqlite")

# Outbox rows that are not finished; queries must say it in the same words to use the index.
OPEN = "status IN ('pending', 'failed', 'submitted', 'conflict')"

WITNESSED = "status = 'anchored'"

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)

accounts = Table(
    "accounts",
    metadata,
    Column("account_id", Ascii, primary_key=True),
    Column("created_at", Ascii, nullable=False),
    Column("key_id", Ascii, nullable=False),
    Column("wrapped_key", LargeBinary, nullable=False),
    Column("memory_count", BigInteger, nullable=False),
    Column("ledger_seq", BigInteger, nullable=False),
    Column("ledger_hash", Ascii, nullable=False),
    # The highest ledger position already put in the outbox as a head.
    Column("queued_head", BigInteger, nullable=False),
    Column("profile_blob", LargeBinary),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", Ascii, primary_key=True),
    Column("account_id", Ascii, ForeignKey("accounts.account_id"), nullable=False, index=True),
    Column("key_hash", Ascii, nullable=False, unique=True),
    Column("scope", Ascii, nullable=False),
    Column("label_blob", LargeBinary),
    Column("created_at", Ascii, nullable=False),
    Column("revoked_at", Ascii),
)

projects = Table(
    "projects",
    metadata,
    Column("project_id", Ascii, primary_key=True),
    Column("account_id", Ascii, ForeignKey("accounts.account_id"), nullable=False),
    Column("slug", Ascii, nullable=False),
    Column("public_name", Ascii, nullable=False, unique=True),
    Column("secret_blob", LargeBinary, nullable=False),
    Column("profile_blob", LargeBinary),
    Column("archived", Boolean, nullable=False),
    Column("created_at", Ascii, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("state_hash", Ascii, nullable=False),
    Column("watermark", BigInteger, nullable=False),
    UniqueConstraint("account_id", "slug"),
)

# First come, and kept for ever: no foreign key, so that a deleted project's name never passes to someone
# else.
public_names = Table(
    "public_names",
    metadata,
    Column("name", Ascii, primary_key=True),
    Column("project_id", Ascii, nullable=False),
    Column("account_id", Ascii, nullable=False),
    sqlite_with_rowid=False,
)

memories = Table(
    "memories",
    metadata,
    Column("account_id", Ascii, ForeignKey("accounts.account_id"), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    # Not indexed here: random keys would cost each save a page of their own (`outbox` finds it).
    Column("event_hash", Ascii, nullable=False),
    Column("project", Ascii),
    Column("category", Ascii, nullable=False),
    Column("importance", Integer, nullable=False),
    Column("source", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("occurred_at", Ascii, nullable=False),
    Column("recorded_at", Ascii, nullable=False),
    Column("header", Text, nullable=False),
    Column("archived", Boolean, nullable=False),
    Column("superseded_by", BigInteger),
    Column("hidden", Boolean, nullable=False),
    Column("forgotten", Boolean, nullable=False),
    Column("tag_tokens", LargeBinary),
    Column("search_tokens", LargeBinary),
    Column("tags_blob", LargeBinary),
    Column("wrapped_seed", LargeBinary),
    Column("content_blob", LargeBinary),
    Index("ix_memories_project", "account_id", "project", "number"),
)

ledger_entries = Table(
    "ledger_entries",
    metadata,
    Column("account_id", Ascii, ForeignKey("accounts.account_id"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", Ascii, nullable=False),
    Column("entry", Text, nullable=False),
    sqlite_with_rowid=False,
)

state_versions = Table(
    "state_versions",
    metadata,
    Column("project_id", Ascii, ForeignKey("projects.project_id"), primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("account_id", Ascii, nullable=False),
    Column("state_hash", Ascii, nullable=False),
    Column("previous_state_hash", Ascii, nullable=False),
    Column("consolidated_until_event", BigInteger, nullable=False),
    Column("generated_at", Ascii, nullable=False),
    Column("generated_by_blob", LargeBinary),
    Column("ops_count", Integer, nullable=False),
    Column("ops_seed", LargeBinary, nullable=False),
    Column("ops_blob", LargeBinary, nullable=False),
)

state_snapshots = Table(
    "state_snapshots",
    metadata,
    Column("project_id", Ascii, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("doc_seed", LargeBinary, nullable=False),
    Column("doc_blob", LargeBinary, nullable=False),
)

# Which version first cited which memory for which item, in plain numbers: the worker orders memories before
# states by it, and evidence and forgetting find who cites what.
citations = Table(
    "citations",
    metadata,
    Column("project_id", Ascii, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("item_id", Ascii, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("account_id", Ascii, nullable=False),
    Index("ix_citations_memory", "account_id", "number"),
    sqlite_with_rowid=False,
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Serial, primary_key=True, autoincrement=True),
    Column("kind", Ascii, nullable=False),
    # account_id for a memory or a head, project_id for a state.
    Column("subject", Ascii, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("account_id", Ascii, nullable=False),
    Column("hash", Ascii, nullable=False),
    Column("status", Ascii, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", Ascii, nullable=False),
    Column("reason", Text),
    Column("tx_hash", Ascii),
    Column("block_number", BigInteger),
    Column("block_hash", Ascii),
    Column("anchor_id", Ascii),
    Column("anchored_at", Ascii),
    Column("created_at", Ascii, nullable=False),
    UniqueConstraint("kind", "subject", "position", name="uq_outbox_place"),
    Index(
        "ix_outbox_open",
        "kind",
        "id",
        sqlite_where=text(OPEN),
        postgresql_where=text(OPEN),
    ),
    Index("ix_outbox_hash", "hash", sqlite_where=text(WITNESSED), postgresql_where=text(WITNESSED)),
    Index(
        "ix_outbox_tx",
        "tx_hash",
        sqlite_where=text("tx_hash IS NOT NULL"),
        postgresql_where=text("tx_hash IS NOT NULL"),
    ),
    Index(
        "ix_outbox_block",
        "block_number",
        sqlite_where=text("block_number IS NOT NULL"),
        postgresql_where=text("block_number IS NOT NULL"),
    ),
)

chain_transactions = Table(
    "chain_transactions",
    metadata,
    Column("tx_hash", Ascii, primary_key=True),
    Column("chain_id", BigInteger, nullable=False),
    Column("signer", Ascii, nullable=False),
    Column("nonce", BigInteger, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("purpose", Ascii, nullable=False),
    Column("status", Ascii, nullable=False),
    Column("outbox_ids", Text, nullable=False),
    Column("gas_limit", BigInteger, nullable=False),
    # Wei need not fit 64 bits: decimal strings.
    Column("max_fee", Ascii, nullable=False),
    Column("priority_fee", Ascii),
    Column("block_number", BigInteger),
    Column("block_hash", Ascii),
    Column("gas_used", BigInteger),
    Column("created_at", Ascii, nullable=False),
    Column("updated_at", Ascii, nullable=False),
    Index("ix_chain_transactions_signer", "chain_id", "signer", "status", "nonce"),
)

leases = Table(
    "leases",
    metadata,
    Column("name", Ascii, primary_key=True),
    Column("holder", Ascii, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("expires_at", Ascii, nullable=False),
    sqlite_with_rowid=False,
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("account_id", Ascii, primary_key=True),
    Column("route", Ascii, primary_key=True),
    Column("key_hash", Ascii, primary_key=True),
    Column("body_hash", Ascii, nullable=False),
    Column("created_at", Ascii, nullable=False),
    # The memories an answer tells about, so that forgetting one can destroy the answer.
    Column("first_number", BigInteger),
    Column("last_number", BigInteger),
    Column("status", Integer),
    Column("answer_blob", LargeBinary),
    Index("ix_idempotency_created", "created_at"),
)

deployments = Table(
    "deployments",
    metadata,
    Column("chain_id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Ascii, primary_key=True),
    Column("address", Ascii, nullable=False),
    Column("block_number", BigInteger, nullable=False),
    Column("tx_hash", Ascii, nullable=False),
    Column("code_hash", Ascii, nullable=False),
    Column("created_at", Ascii, nullable=False),
)

# What the worker last said of itself; a row for each lease, written only under it.
worker_status = Table(
    "worker_status",
    metadata,
    Column("name", Ascii, primary_key=True),
    Column("holder", Ascii, nullable=False),
    Column("state", Ascii, nullable=False),
    Column("words", Text, nullable=False),
    Column("error", Text),
    Column("signer", Ascii),
    # Wei need not fit 64 bits: a decimal string.
    Column("balance", Ascii),
    Column("chain_id", BigInteger),
    Column("head_number", BigInteger),
    Column("head_at", Ascii),
    Column("contracts", Text, nullable=False),
    # Which part of the work is this worker's, as "2/3".
    Column("part", Ascii, nullable=False),
    # What people must know of, until it is a day old.
    Column("notice", Text),
    Column("notice_at", Ascii),
    Column("started_at", Ascii, nullable=False),
    Column("beat_at", Ascii, nullable=False),
)

# What the workers have done since the store was made, for metrics: counts, changed with what they count.
worker_counts = Table(
    "worker_counts",
    metadata,
    Column("name", Ascii, primary_key=True),
    Column("what", Ascii, primary_key=True),
    Column("kind", Ascii, primary_key=True),
    Column("value", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
