"""The retrieval library: answers inside one tenant's scope, with citations, and fails closed."""

from rag_assets.retrieval.agentic import AgenticRetriever
from rag_assets.retrieval.answers import Answer, aanswer, answer
from rag_assets.retrieval.caches import CachedRetriever
from rag_assets.retrieval.citations import CitationCheck, check_citations
from rag_assets.retrieval.context import Context, format_retrieved_context
from rag_assets.retrieval.diverse import DiverseRetriever
from rag_assets.retrieval.dual import DualRetriever
from rag_assets.retrieval.expanded import ExpandedRetriever
from rag_assets.retrieval.graph import GraphRetriever
from rag_assets.retrieval.ladder import LadderRetriever, TimedRetriever
from rag_assets.retrieval.protocol import Retriever, SteppedRetriever
from rag_assets.retrieval.reranked import RerankedRetriever
from rag_assets.retrieval.results import Retrieval, RetrievalResult
from rag_assets.retrieval.retrievers import DenseRetriever, HybridRetriever, LexicalRetriever
from rag_assets.retrieval.rewriting import RewritingRetriever
from rag_assets.retrieval.scope import RetrievalScope, aopen_scope, open_scope

__all__ = [
    "AgenticRetriever",
    "Answer",
    "CachedRetriever",
    "CitationCheck",
    "Context",
    "DenseRetriever",
    "DiverseRetriever",
    "DualRetriever",
    "ExpandedRetriever",
    "GraphRetriever",
    "HybridRetriever",
    "LadderRetriever",
    "LexicalRetriever",
    "RerankedRetriever",
    "Retrieval",
    "RetrievalResult",
    "RetrievalScope",
    "Retriever",
    "RewritingRetriever",
    "SteppedRetriever",
    "TimedRetriever",
    "aanswer",
    "answer",
    "aopen_scope",
    "check_citations",
    "format_retrieved_context",
    "open_scope",
]
