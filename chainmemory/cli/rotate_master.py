"""`chainmemory keys rotate-master`: a new master key wraps every account's key; no content is touched."""

from __future__ import annotations

from chainmemory.cli import options
from chainmemory.cli.import_git import bar
from chainmemory.cli.local_store import open_store
from chainmemory.cli.output import print_json, printable, say
from chainmemory.errors import Unavailable
from chainmemory.settings import Settings
from chainmemory.vault.master import FILE


def rotate_master(
    home: options.Home = None, database_url: options.DatabaseUrl = None, as_json: options.AsJson = False
) -> None:
    """Wrap all accounts' keys with a new master key.

    The old one is dropped from the home in the end. Works on the home, with or without a server. Safe to
    break off and to repeat: a rotation that was begun is gone on with. While a server runs the old key
    stays (exit code 2); stop it and repeat to drop the key.
    """
    settings = Settings.load(home=home, database_url=database_url)
    from chainmemory.engine.master_rotation import rotate_master_key

    with open_store(settings) as db:
        with db.read() as tx:
            accounts, _ = tx.accounts.totals()
        with bar("accounts", accounts) as advance:
            done = rotate_master_key(settings, db, advance)
    if as_json:
        told = {"key_id": done.key_id, "rewrapped": done.rewrapped}
        print_json({**told, "dropped": done.dropped, "waiting": done.waiting})
    else:
        say(f"The master key {done.key_id} wraps all accounts' keys; {done.rewrapped} were wrapped anew.")
        if done.dropped:
            say(
                printable(f"Gone from {settings.home / FILE}: {', '.join(done.dropped)}. ")
                + "Backups made before now can't be read without it."
            )
    waiting = ", ".join(done.waiting)
    if not waiting:
        return
    if settings.master_key:
        say(
            f"Nothing needs {waiting} any more: take it out of the variable, and restart the server.",
            err=True,
        )
        return
    raise Unavailable(
        f"{waiting} stays in {settings.home / FILE}, for a server may be using it. Stop the server and run "
        "this again; nothing else is left to do.",
        code="ring_in_use",
    )
