"""Read what other systems export as rows and graph entries of an import: one module for each format."""
