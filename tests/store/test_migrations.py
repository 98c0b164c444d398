"""The migrations give exactly the schema that the code is written against."""

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from ledger.store.database import Database
from ledger.store.tables import metadata


def test_metadata_and_migrations_agree(database: Database) -> None:
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
