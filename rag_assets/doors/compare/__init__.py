"""Two ways of answering side by side: for one question, or for all labelled ones."""
