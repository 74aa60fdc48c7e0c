package config

import (
	"regexp"
	"strings"
)

// serviceLink matches a variable, as NAME=value, that Kubernetes sets in every container for a Service named stagedoor
// or stagedoor-… (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables). It matches the
// value too, so that STAGEDOOR_PORT=8080, an operator's mistake for STAGEDOOR_LISTEN, is still refused.
var serviceLink = regexp.MustCompile(serviceLinkPattern())

func serviceLinkPattern() string {
	const addr, number, hostPort = `[0-9a-f.:]+`, `[0-9]{1,5}`, `(?:[0-9.]+|\[[0-9a-f.:]+\]):[0-9]{1,5}`
	const more = `(?:_[A-Z0-9_]*[A-Z0-9])?` // The rest of a name whose hyphens became underscores.
	forms := []string{`SERVICE_HOST=` + addr, `SERVICE_PORT` + more + `=` + number}
	for _, p := range []string{"tcp", "udp", "sctp"} {
		port := `PORT_` + number + `_` + strings.ToUpper(p)
		forms = append(forms, `PORT=`+p+`://`+hostPort, port+`=`+p+`://`+hostPort, port+`_PROTO=`+p, port+`_PORT=`+number, port+`_ADDR=`+addr)
	}
	return `^STAGEDOOR` + more + `_(?:` + strings.Join(forms, `|`) + `)$`
}
