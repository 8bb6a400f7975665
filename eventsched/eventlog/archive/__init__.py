"""An archive of a log: Parquet files by stream and day, from which the log is read again.

``archiver`` writes the files, ``archive_folder`` says which positions a folder holds, and
``archive_log`` reads them as a log. docs/log-format.md describes the files. All of it needs the
extra ``archive`` (pyarrow), so commands import this package only when they use it.
"""
