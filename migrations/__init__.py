"""The database's schema: Alembic's environment (``env.py``), its revisions (``versions``) and their
SQL (``sql``). A wheel has the same files inside the package; ``eventlog/schema/revisions.py`` finds
either. A revision that has been released never changes."""
