"""What the help page asks: which streams there are, to say where its links lead."""

from eventsched.pages.page_question import PageQuestion, PageRequest


def question(request: PageRequest) -> PageQuestion:
    """The request for the streams. The page's words are its own."""
    return PageQuestion("/streams")
