"""Run migrations on the connection that `chainmemory.store.migrate` opened (and commits)."""

from alembic import context

from chainmemory.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True
)
context.run_migrations()
