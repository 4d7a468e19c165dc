"""Makes `return x` outside a function end the program with x. Loaded only if a program contains the word return."""

import ast


class TopLevelReturn(ast.NodeTransformer):
    def visit_FunctionDef(self, node):
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef

    def visit_Return(self, node):
        value = node.value or ast.Constant(None)
        call = ast.Call(ast.Name("__toolroom_returned__", ast.Load()), [value], [])
        return ast.copy_location(ast.Raise(call, None), node)


def caught(tree):
    """Returns the tree with top-level returns replaced by raising the exception that ends the program."""
    return ast.fix_missing_locations(TopLevelReturn().visit(tree))
