"""Copies of a node table. They share nodes and pods, which never change."""

from eventsched.domain.nodes.node_table import NodeTable


def copy_into(table: NodeTable, source: NodeTable) -> None:
    """Fills an empty table with the rows of another one and with what was derived from them, except
    for counts of pods by query: those are counted when asked for. The samples stay as they are."""
    table.names, table.rows = source.names.copy(), source.rows.copy()
    table.nodes, table.free_rows = source.nodes.copy(), source.free_rows.copy()
    table.columns, table._frees_columns = source.columns.copied(), source._frees_columns
    table._capacity, table.additions = source._capacity, source.additions
    table.alive, table.unschedulable = source.alive.copy(), source.unschedulable.copy()
    table.books, table.totals = source.books.copy(), source.totals.copy()
    table.unoffered = {row: amounts.copy() for row, amounts in source.unoffered.items()}
    table._derived = {key: column.copied() for key, column in source._derived.items()}
    table._readers, table._label_names = source._readers.copy(), source._label_names.copy()
    plain, blank = source._no_label
    table._no_label = plain.copied(), blank.copied()
    table.images, table.volumes = source.images.copied(), source.volumes.copied()
    table.residents = [pods.copy() for pods in source.residents]
    table.tallies, table.host_ports = (
        source.tallies.copied(source._capacity), source.host_ports.copied(),
    )  # fmt: skip
