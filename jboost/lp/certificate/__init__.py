"""From any primal and dual point to bounds that hold: assessment, repair, tightening, status."""
