"""The live page: runs while they train, in a browser. It reads run directories and monitor states and never writes."""
