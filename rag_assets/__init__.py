"""Retrieval knowledge of a multi-tenant chatbot, kept right in Postgres: ingest it, prove it, search it.

    import rag_assets as rag

    database = rag.Database.from_settings()
    retriever = rag.HybridRetriever(database)  # once
    scope = rag.open_scope(database, tenant="acme", bot="support")  # for each request, on the server
    for hit in retriever.search("how long is the warranty", scope, top_k=8):
        print(hit.score, hit.source_name, hit.citation)

What `__all__` lists is the package's promise; everything below it is internal and may move. A name is imported when it
is first used, so that importing the package costs nothing. `rag_assets.doors.langchain`,
`rag_assets.doors.llamaindex` and `rag_assets.vector_stores` are promised too, and are imported by these names.
"""

TYPE_CHECKING = False  # as type checkers know it, without importing typing
if TYPE_CHECKING:
    from rag_assets.chat.google import GoogleChat
    from rag_assets.chat.openai import OpenAIChat
    from rag_assets.chat.protocol import ChatAnswer, ChatMessage, ChatModel
    from rag_assets.chunking import ChunkingSpec, chunk_document
    from rag_assets.documents.isolated import parse_file
    from rag_assets.documents.model import Block, Chunk, Document, Record
    from rag_assets.documents.ocr import register_ocr
    from rag_assets.documents.registry import register_parser
    from rag_assets.doors.push import (
        adelete_pushed,
        apush_document,
        apushed_status,
        delete_pushed,
        push_document,
        pushed_status,
    )
    from rag_assets.doors.tools import AgentTools, make_tools
    from rag_assets.embedding.profiles import EmbeddingProfile, make_profile
    from rag_assets.errors import (
        ChatError,
        CostCeilingReached,
        DatabaseFailed,
        DatabaseRefused,
        DatabaseUnavailable,
        EmbeddingError,
        InvalidArgument,
        InvalidKey,
        InvalidProfile,
        ModelNonsense,
        ModelRefused,
        ModelUnavailable,
        ParseError,
        ParserUnavailable,
        ProfileNotReady,
        PromotionRefused,
        ProviderRefused,
        ProviderUnavailable,
        PushLimitReached,
        RagError,
        RootMoved,
        RootUnreadable,
        ScopeError,
        ScopeRefused,
        SourceError,
        TextRefused,
        TimeLimitReached,
        TokenizerUnavailable,
        UnknownBot,
        UnknownPath,
        UnknownProfile,
        UnknownRoot,
        UnknownSource,
        UnknownTenant,
        UnsupportedFormat,
        UsageError,
    )
    from rag_assets.ingest.run import IngestReport, ingest
    from rag_assets.ingest.triples import ImportReport, import_triples
    from rag_assets.retrieval.agentic import AgenticRetriever
    from rag_assets.retrieval.answers import Answer, aanswer, answer
    from rag_assets.retrieval.caches import CachedRetriever
    from rag_assets.retrieval.citations import CitationCheck, check_citations
    from rag_assets.retrieval.context import Context, format_retrieved_context
    from rag_assets.retrieval.diverse import DiverseRetriever
    from rag_assets.retrieval.dual import DualRetriever
    from rag_assets.retrieval.expanded import ExpandedRetriever
    from rag_assets.retrieval.feedback import arecord_feedback, observe_answer, record_feedback
    from rag_assets.retrieval.files import load_retriever
    from rag_assets.retrieval.graph import GraphRetriever
    from rag_assets.retrieval.ladder import LadderRetriever, TimedRetriever
    from rag_assets.retrieval.protocol import Retriever
    from rag_assets.retrieval.reranked import RerankedRetriever
    from rag_assets.retrieval.rerankers.bi_encoder import BiEncoderReranker
    from rag_assets.retrieval.rerankers.chat import ChatReranker
    from rag_assets.retrieval.rerankers.cross_encoder import CrossEncoderReranker
    from rag_assets.retrieval.rerankers.protocol import Reranker, Scores
    from rag_assets.retrieval.rerankers.server import ServerReranker
    from rag_assets.retrieval.results import Retrieval, RetrievalResult
    from rag_assets.retrieval.retrievers import DenseRetriever, HybridRetriever, LexicalRetriever
    from rag_assets.retrieval.rewriting import RewritingRetriever
    from rag_assets.retrieval.scope import RetrievalScope, aopen_scope, open_scope
    from rag_assets.settings import Settings
    from rag_assets.signing import ScopeKey, ScopeSignature, sign_scope
    from rag_assets.store.database import Database

__all__ = [
    "AgentTools",
    "AgenticRetriever",
    "Answer",
    "BiEncoderReranker",
    "Block",
    "CachedRetriever",
    "ChatAnswer",
    "ChatError",
    "ChatMessage",
    "ChatModel",
    "ChatReranker",
    "Chunk",
    "ChunkingSpec",
    "CitationCheck",
    "Context",
    "CostCeilingReached",
    "CrossEncoderReranker",
    "Database",
    "DatabaseFailed",
    "DatabaseRefused",
    "DatabaseUnavailable",
    "DenseRetriever",
    "DiverseRetriever",
    "Document",
    "DualRetriever",
    "EmbeddingError",
    "EmbeddingProfile",
    "ExpandedRetriever",
    "GoogleChat",
    "GraphRetriever",
    "HybridRetriever",
    "ImportReport",
    "IngestReport",
    "InvalidArgument",
    "InvalidKey",
    "InvalidProfile",
    "LadderRetriever",
    "LexicalRetriever",
    "ModelNonsense",
    "ModelRefused",
    "ModelUnavailable",
    "OpenAIChat",
    "ParseError",
    "ParserUnavailable",
    "ProfileNotReady",
    "PromotionRefused",
    "ProviderRefused",
    "ProviderUnavailable",
    "PushLimitReached",
    "RagError",
    "Record",
    "RerankedRetriever",
    "Reranker",
    "Retrieval",
    "RetrievalResult",
    "RetrievalScope",
    "Retriever",
    "RewritingRetriever",
    "RootMoved",
    "RootUnreadable",
    "ScopeError",
    "ScopeKey",
    "ScopeRefused",
    "ScopeSignature",
    "Scores",
    "ServerReranker",
    "Settings",
    "SourceError",
    "TextRefused",
    "TimeLimitReached",
    "TimedRetriever",
    "TokenizerUnavailable",
    "UnknownBot",
    "UnknownPath",
    "UnknownProfile",
    "UnknownRoot",
    "UnknownSource",
    "UnknownTenant",
    "UnsupportedFormat",
    "UsageError",
    "aanswer",
    "adelete_pushed",
    "answer",
    "aopen_scope",
    "apush_document",
    "apushed_status",
    "arecord_feedback",
    "check_citations",
    "chunk_document",
    "delete_pushed",
    "format_retrieved_context",
    "import_triples",
    "ingest",
    "load_retriever",
    "make_profile",
    "make_tools",
    "observe_answer",
    "open_scope",
    "parse_file",
    "push_document",
    "pushed_status",
    "record_feedback",
    "register_ocr",
    "register_parser",
    "sign_scope",
]

# Where each name is at home, but for the errors. `ingest` has its place in the package of that name, which is called.
_HOMES = {
    "adelete_pushed": "doors.push",
    "apush_document": "doors.push",
    "apushed_status": "doors.push",
    "delete_pushed": "doors.push",
    "push_document": "doors.push",
    "pushed_status": "doors.push",
    "AgentTools": "doors.tools",
    "AgenticRetriever": "retrieval.agentic",
    "Answer": "retrieval.answers",
    "BiEncoderReranker": "retrieval.rerankers.bi_encoder",
    "Block": "documents.model",
    "CachedRetriever": "retrieval.caches",
    "ChatAnswer": "chat.protocol",
    "ChatMessage": "chat.protocol",
    "ChatModel": "chat.protocol",
    "ChatReranker": "retrieval.rerankers.chat",
    "Chunk": "documents.model",
    "ChunkingSpec": "chunking",
    "CitationCheck": "retrieval.citations",
    "Context": "retrieval.context",
    "CrossEncoderReranker": "retrieval.rerankers.cross_encoder",
    "Database": "store.database",
    "DenseRetriever": "retrieval.retrievers",
    "DiverseRetriever": "retrieval.diverse",
    "Document": "documents.model",
    "DualRetriever": "retrieval.dual",
    "EmbeddingProfile": "embedding.profiles",
    "ExpandedRetriever": "retrieval.expanded",
    "GoogleChat": "chat.google",
    "GraphRetriever": "retrieval.graph",
    "HybridRetriever": "retrieval.retrievers",
    "ImportReport": "ingest.triples",
    "IngestReport": "ingest.run",
    "LadderRetriever": "retrieval.ladder",
    "LexicalRetriever": "retrieval.retrievers",
    "OpenAIChat": "chat.openai",
    "Record": "documents.model",
    "RerankedRetriever": "retrieval.reranked",
    "Reranker": "retrieval.rerankers.protocol",
    "Retrieval": "retrieval.results",
    "RetrievalResult": "retrieval.results",
    "RetrievalScope": "retrieval.scope",
    "Retriever": "retrieval.protocol",
    "RewritingRetriever": "retrieval.rewriting",
    "ScopeKey": "signing",
    "ScopeSignature": "signing",
    "Scores": "retrieval.rerankers.protocol",
    "ServerReranker": "retrieval.rerankers.server",
    "Settings": "settings",
    "TimedRetriever": "retrieval.ladder",
    "aanswer": "retrieval.answers",
    "answer": "retrieval.answers",
    "aopen_scope": "retrieval.scope",
    "arecord_feedback": "retrieval.feedback",
    "check_citations": "retrieval.citations",
    "chunk_document": "chunking",
    "format_retrieved_context": "retrieval.context",
    "load_retriever": "retrieval.files",
    "import_triples": "ingest.triples",
    "make_profile": "embedding.profiles",
    "make_tools": "doors.tools",
    "observe_answer": "retrieval.feedback",
    "open_scope": "retrieval.scope",
    "parse_file": "documents.isolated",
    "record_feedback": "retrieval.feedback",
    "register_ocr": "documents.ocr",
    "register_parser": "documents.registry",
    "sign_scope": "signing",
}


if not TYPE_CHECKING:  # a checker would take every name for one that is there

    def __getattr__(name):
        from importlib import import_module  # 6 ms, which `import rag_assets` alone would wait for

        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "ingest":
            return import_module("rag_assets.ingest")
        home = import_module(f"rag_assets.{_HOMES.get(name, 'errors')}")
        value = globals()[name] = getattr(home, name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
