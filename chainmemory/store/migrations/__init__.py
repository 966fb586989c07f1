"""Alembic's folder: env.py runs the scripts in versions/ on the connection it is given."""
