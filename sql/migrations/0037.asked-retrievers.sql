-- depends: 0036.filters

-- A run may be asked through a retriever of a file, which its settings hold.
ALTER TABLE rag.eval_runs DROP CONSTRAINT eval_runs_mode_check;
ALTER TABLE rag.eval_runs ADD CONSTRAINT eval_runs_mode_check
    CHECK (mode IN ('dense', 'lexical', 'hybrid', 'retriever'));

-- A verdict on two ways of asking says nothing of the profiles behind them, and promotes none.
ALTER TABLE rag.gate_verdicts ADD COLUMN asked_alike boolean NOT NULL DEFAULT true;
