"""What other systems export, read as the rows and graph entries of an import: one module for each format."""
