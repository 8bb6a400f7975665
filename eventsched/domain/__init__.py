"""Objects, columns, records and state: pure data and the one ``apply`` that changes it."""
