-- depends: 0010.pages

-- The file of a source, where some models can embed it as such: {"type", "pages", "checksum" of its bytes}.
ALTER TABLE rag.knowledge_sources ADD COLUMN media jsonb;
