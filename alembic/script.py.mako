"""${message}

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}

Rules for a migration that cannot hurt production:
- It runs while the old version of the service is still serving. Both must work with the schema before and after it.
- Add, then use, then remove: three releases. A new column is nullable or has a constant default.
- An index on a table with rows is built concurrently: `with op.get_context().autocommit_block():` and
  `CREATE INDEX CONCURRENTLY`. A CHECK is added NOT VALID, and validated by a later migration.
- No statement rewrites a table or reads all of it under a lock. lock_timeout and statement_timeout are set (alembic/env.py):
  when one strikes, make the step smaller; do not raise the timeout.
- Rows of the journal are never changed. What was wrong is corrected by new rows.
- There is no way down. A mistake is mended by the next migration.
"""

from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
