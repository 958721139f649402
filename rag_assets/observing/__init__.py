"""What a search tells of itself: spans, metrics, lines of a log, and the query log.

Nothing is told unless somebody listens: an OpenTelemetry SDK that the application has set up or `start` has, or a
setting that is on. No text of a query leaves the process but by a setting, and then with personal data masked.
"""
