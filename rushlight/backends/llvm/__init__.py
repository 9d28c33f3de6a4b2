"""The default CPU backend: tile programs to native code through LLVM IR (llvmlite)."""
