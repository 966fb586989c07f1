"""The first tables: accounts, memories, their ledger, states, and the outbox."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ASCII = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
OPEN = "status IN ('pending', 'failed', 'submitted', 'conflict')"


def upgrade() -> None:
    """Create everything."""
    op.create_table(
        "accounts",
        sa.Column("account_id", ASCII, nullable=False),
        sa.Column("created_at", ASCII, nullable=False),
        sa.Column("key_id", ASCII, nullable=False),
        sa.Column("wrapped_key", sa.LargeBinary(), nullable=False),
        sa.Column("memory_count", sa.BigInteger(), nullable=False),
        sa.Column("ledger_seq", sa.BigInteger(), nullable=False),
        sa.Column("ledger_hash", ASCII, nullable=False),
        sa.Column("queued_head", sa.BigInteger(), nullable=False),
        sa.Column("profile_blob", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("account_id", name=op.f("pk_accounts")),
    )
    op.create_table(
        "chain_transactions",
        sa.Column("tx_hash", ASCII, nullable=False),
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("signer", ASCII, nullable=False),
        sa.Column("nonce", sa.BigInteger(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.Column("purpose", ASCII, nullable=False),
        sa.Column("status", ASCII, nullable=False),
        sa.Column("outbox_ids", sa.Text(), nullable=False),
        sa.Column("gas_limit", sa.BigInteger(), nullable=False),
        sa.Column("max_fee", ASCII, nullable=False),
        sa.Column("priority_fee", ASCII, nullable=True),
        sa.Column("block_number", sa.BigInteger(), nullable=True),
        sa.Column("block_hash", ASCII, nullable=True),
        sa.Column("gas_used", sa.BigInteger(), nullable=True),
        sa.Column("created_at", ASCII, nullable=False),
        sa.Column("updated_at", ASCII, nullable=False),
        sa.PrimaryKeyConstraint("tx_hash", name=op.f("pk_chain_transactions")),
    )
    op.create_index(
        "ix_chain_transactions_signer",
        "chain_transactions",
        ["chain_id", "signer", "status", "nonce"],
        unique=False,
    )
    op.create_table(
        "worker_status",
        sa.Column("name", ASCII, nullable=False),
        sa.Column("holder", ASCII, nullable=False),
        sa.Column("state", ASCII, nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("signer", ASCII, nullable=True),
        sa.Column("balance", ASCII, nullable=True),
        sa.Column("chain_id", sa.BigInteger(), nullable=True),
        sa.Column("head_number", sa.BigInteger(), nullable=True),
        sa.Column("head_at", ASCII, nullable=True),
        sa.Column("contracts", sa.Text(), nullable=False),
        sa.Column("part", ASCII, nullable=False),
        sa.Column("notice", sa.Text(), nullable=True),
        sa.Column("notice_at", ASCII, nullable=True),
        sa.Column("started_at", ASCII, nullable=False),
        sa.Column("beat_at", ASCII, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_worker_status")),
    )
    op.create_table(
        "worker_counts",
        sa.Column("name", ASCII, nullable=False),
        sa.Column("what", ASCII, nullable=False),
        sa.Column("kind", ASCII, nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "what", "kind", name=op.f("pk_worker_counts")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "citations",
        sa.Column("project_id", ASCII, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("item_id", ASCII, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("account_id", ASCII, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "version", "item_id", "number", name=op.f("pk_citations")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_citations_memory", "citations", ["account_id", "number"], unique=False)
    op.create_table(
        "deployments",
        sa.Column("chain_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", ASCII, nullable=False),
        sa.Column("address", ASCII, nullable=False),
        sa.Column("block_number", sa.BigInteger(), nullable=False),
        sa.Column("tx_hash", ASCII, nullable=False),
        sa.Column("code_hash", ASCII, nullable=False),
        sa.Column("created_at", ASCII, nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "name", name=op.f("pk_deployments")),
    )
    op.create_table(
        "idempotency",
        sa.Column("account_id", ASCII, nullable=False),
        sa.Column("route", ASCII, nullable=False),
        sa.Column("key_hash", ASCII, nullable=False),
        sa.Column("body_hash", ASCII, nullable=False),
        sa.Column("created_at", ASCII, nullable=False),
        sa.Column("first_number", sa.BigInteger(), nullable=True),
        sa.Column("last_number", sa.BigInteger(), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("answer_blob", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("account_id", "route", "key_hash", name=op.f("pk_idempotency")),
    )
    op.create_index("ix_idempotency_created", "idempotency", ["created_at"], unique=False)
    op.create_table(
        "leases",
        sa.Column("name", ASCII, nullable=False),
        sa.Column("holder", ASCII, nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", ASCII, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "outbox",
        sa.Column("id", SERIAL, autoincrement=True, nullable=False),
        sa.Column("kind", ASCII, nullable=False),
        sa.Column("subject", ASCII, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("account_id", ASCII, nullable=False),
        sa.Column("hash", ASCII, nullable=False),
        sa.Column("status", ASCII, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", ASCII, nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("tx_hash", ASCII, nullable=True),
        sa.Column("block_number", sa.BigInteger(), nullable=True),
        sa.Column("block_hash", ASCII, nullable=True),
        sa.Column("anchor_id", ASCII, nullable=True),
        sa.Column("anchored_at", ASCII, nullable=True),
        sa.Column("created_at", ASCII, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sa.UniqueConstraint("kind", "subject", "position", name="uq_outbox_place"),
    )
    op.create_index(
        "ix_outbox_block",
        "outbox",
        ["block_number"],
        unique=False,
        sqlite_where=sa.text("block_number IS NOT NULL"),
        postgresql_where=sa.text("block_number IS NOT NULL"),
    )
    op.create_index(
        "ix_outbox_open",
        "outbox",
        ["kind", "id"],
        unique=False,
        sqlite_where=sa.text(OPEN),
        postgresql_where=sa.text(OPEN),
    )
    op.create_index(
        "ix_outbox_hash",
        "outbox",
        ["hash"],
        unique=False,
        sqlite_where=sa.text("status = 'anchored'"),
        postgresql_where=sa.text("status = 'anchored'"),
    )
    op.create_index(
        "ix_outbox_tx",
        "outbox",
        ["tx_hash"],
        unique=False,
        sqlite_where=sa.text("tx_hash IS NOT NULL"),
        postgresql_where=sa.text("tx_hash IS NOT NULL"),
    )
    op.create_table(
        "public_names",
        sa.Column("name", ASCII, nullable=False),
        sa.Column("project_id", ASCII, nullable=False),
        sa.Column("account_id", ASCII, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_public_names")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "state_snapshots",
        sa.Column("project_id", ASCII, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("doc_seed", sa.LargeBinary(), nullable=False),
        sa.Column("doc_blob", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "version", name=op.f("pk_state_snapshots")),
    )
    op.create_table(
        "api_keys",
        sa.Column("key_id", ASCII, nullable=False),
        sa.Column("account_id", ASCII, nullable=False),
        sa.Column("key_hash", ASCII, nullable=False),
        sa.Column("scope", ASCII, nullable=False),
        sa.Column("label_blob", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", ASCII, nullable=False),
        sa.Column("revoked_at", ASCII, nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.account_id"], name=op.f("fk_api_keys_account_id")),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("key_hash", name=op.f("uq_api_keys_key_hash")),
    )
    op.create_index(op.f("ix_api_keys_account_id"), "api_keys", ["account_id"], unique=False)
    op.create_table(
        "ledger_entries",
        sa.Column("account_id", ASCII, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", ASCII, nullable=False),
        sa.Column("entry", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.account_id"], name=op.f("fk_ledger_entries_account_id")
        ),
        sa.PrimaryKeyConstraint("account_id", "seq", name=op.f("pk_ledger_entries")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "memories",
        sa.Column("account_id", ASCII, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("event_hash", ASCII, nullable=False),
        sa.Column("project", ASCII, nullable=True),
        sa.Column("category", ASCII, nullable=False),
        sa.Column("importance", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("occurred_at", ASCII, nullable=False),
        sa.Column("recorded_at", ASCII, nullable=False),
        sa.Column("header", sa.Text(), nullable=False),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("superseded_by", sa.BigInteger(), nullable=True),
        sa.Column("hidden", sa.Boolean(), nullable=False),
        sa.Column("forgotten", sa.Boolean(), nullable=False),
        sa.Column("tag_tokens", sa.LargeBinary(), nullable=True),
        sa.Column("search_tokens", sa.LargeBinary(), nullable=True),
        sa.Column("tags_blob", sa.LargeBinary(), nullable=True),
        sa.Column("wrapped_seed", sa.LargeBinary(), nullable=True),
        sa.Column("content_blob", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.account_id"], name=op.f("fk_memories_account_id")),
        sa.PrimaryKeyConstraint("account_id", "number", name=op.f("pk_memories")),
    )
    op.create_index("ix_memories_project", "memories", ["account_id", "project", "number"], unique=False)
    op.create_table(
        "projects",
        sa.Column("project_id", ASCII, nullable=False),
        sa.Column("account_id", ASCII, nullable=False),
        sa.Column("slug", ASCII, nullable=False),
        sa.Column("public_name", ASCII, nullable=False),
        sa.Column("secret_blob", sa.LargeBinary(), nullable=False),
        sa.Column("profile_blob", sa.LargeBinary(), nullable=True),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("created_at", ASCII, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("state_hash", ASCII, nullable=False),
        sa.Column("watermark", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.account_id"], name=op.f("fk_projects_account_id")),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_projects")),
        sa.UniqueConstraint("account_id", "slug", name=op.f("uq_projects_account_id_slug")),
        sa.UniqueConstraint("public_name", name=op.f("uq_projects_public_name")),
    )
    op.create_table(
        "state_versions",
        sa.Column("project_id", ASCII, nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("account_id", ASCII, nullable=False),
        sa.Column("state_hash", ASCII, nullable=False),
        sa.Column("previous_state_hash", ASCII, nullable=False),
        sa.Column("consolidated_until_event", sa.BigInteger(), nullable=False),
        sa.Column("generated_at", ASCII, nullable=False),
        sa.Column("generated_by_blob", sa.LargeBinary(), nullable=True),
        sa.Column("ops_count", sa.Integer(), nullable=False),
        sa.Column("ops_seed", sa.LargeBinary(), nullable=False),
        sa.Column("ops_blob", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.project_id"], name=op.f("fk_state_versions_project_id")
        ),
        sa.PrimaryKeyConstraint("project_id", "version", name=op.f("pk_state_versions")),
    )
