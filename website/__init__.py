"""The documentation site: what ``make site`` builds with MkDocs from docs/ and the code.

Start with ``build``. ``hooks`` is what MkDocs calls, ``site_pages`` says which page of the
repository is where on the site, ``generated_pages`` writes the pages about commands and the API,
``built_links`` checks the result. ``pictures`` takes the README's pictures of the pages.
The product imports none of it.
"""
