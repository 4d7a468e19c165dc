"""`return x` outside a function ends the program with x. It is loaded where a program has the word."""

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
    """The tree, with such returns as what ends the program."""
    return ast.fix_missing_locations(TopLevelReturn().visit(tree))
