"""``eventsched testcase``: a decision of a log as a pytest file with the smallest cluster.

``shrinking`` leaves out what the verdict does not need, ``opaque_names`` renames what is left, and
``test_file`` writes the file, which imports only ``eventsched.testing`` and is run by pytest. Start
reading at ``shrinking``. Only the command line imports this package.
"""
