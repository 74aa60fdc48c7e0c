package archtest

import (
	"go/ast"
	"slices"
	"strings"
)

// contractDir is the package that declares the events of the service, with a row define[Payload] for each.
const contractDir = "internal/base/contract"

// addEvent records a payload that the node declares or builds. It is a visitor for ast.Inspect.
func (p *pkg) addEvent(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IndexExpr:
		function, _ := n.X.(*ast.Ident)
		payload, _ := n.Index.(*ast.Ident)
		if p.dir == contractDir && function != nil && function.Name == "define" && payload != nil {
			p.defines = append(p.defines, payload.Name)
		}
	case *ast.CompositeLit:
		p.addSent(n.Type)
	case *ast.CallExpr: // a conversion
		p.addSent(n.Fun)
	}
	return true
}

func (p *pkg) addSent(typ ast.Expr) {
	if named, ok := typ.(*ast.SelectorExpr); ok {
		if from, ok := named.X.(*ast.Ident); ok && from.Name == "contract" {
			p.sends = append(p.sends, named.Sel.Name)
		}
	}
}

// checkEvents returns the events that the contract declares and no package builds. Clients would wait for them in vain.
func checkEvents(packages map[string]*pkg) (faults []string) {
	var sent []string
	for _, p := range packages {
		if !strings.HasPrefix(p.dir, "internal/test/") {
			sent = append(sent, p.sends...)
		}
	}
	if p := packages[contractDir]; p != nil {
		for _, payload := range p.defines {
			if !slices.Contains(sent, payload) {
				faults = append(faults, contractDir+" defines "+payload+", but no package sends it")
			}
		}
	}
	return faults
}
