"""Chat models: a few messages go in, a text or an object of a given form comes back, or one typed error."""
