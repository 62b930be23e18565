"""The knowledge graph: named nodes, edges between them, walks, and consent to what is constitutive."""
