package curlimport

import (
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// invocation reads Chrome's "Copy as PowerShell": a few lines that fill $session, then Invoke-WebRequest.
type invocation struct {
	tokens []token
	r      *request
	called bool
}

func readInvoke(text string) (*request, error) {
	tokens, err := tokenize(text)
	if err != nil {
		return nil, err
	}
	in := &invocation{tokens: tokens, r: newRequest()}
	for len(in.tokens) > 0 {
		if err := in.statement(); err != nil {
			return nil, err
		}
		if len(in.tokens) > 0 && !in.takes(tokenEnd, "") {
			return nil, errInvoke()
		}
	}
	if !in.called {
		return nil, unparseable("syntax", "The text has no Invoke-WebRequest. Copy the whole command.")
	}
	return in.r, nil
}

func errInvoke() error {
	return unparseable("syntax", "The text is not written as Chrome writes Copy as PowerShell.")
}

// takes moves on if the next token is this one. The case of bare words does not matter to PowerShell.
func (in *invocation) takes(kind tokenKind, text string) bool {
	if len(in.tokens) == 0 || in.tokens[0].kind != kind || kind != tokenQuoted && !strings.EqualFold(in.tokens[0].text, text) {
		return false
	}
	in.tokens = in.tokens[1:]
	return true
}

// sequence moves on over bare words and marks, all or an error.
func (in *invocation) sequence(texts ...string) error {
	for _, text := range texts {
		if !in.takes(tokenBare, text) && !in.takes(tokenMark, text) {
			return errInvoke()
		}
	}
	return nil
}

func (in *invocation) quoted() (string, error) {
	if len(in.tokens) == 0 || in.tokens[0].kind != tokenQuoted {
		return "", errInvoke()
	}
	text := in.tokens[0].text
	in.tokens = in.tokens[1:]
	return text, nil
}

func (in *invocation) statement() error {
	switch {
	case in.called:
		return unparseable("syntax", notOne)
	case in.takes(tokenBare, "$session"):
		return in.sequence("=", "New-Object", "Microsoft.PowerShell.Commands.WebRequestSession")
	case in.takes(tokenBare, "$session.UserAgent"):
		if err := in.sequence("="); err != nil {
			return err
		}
		agent, err := in.quoted()
		in.r.agent = agent
		return err
	case in.takes(tokenBare, "$session.Cookies.Add"):
		return in.cookie()
	case in.takes(tokenBare, "Invoke-WebRequest"), in.takes(tokenBare, "Invoke-RestMethod"):
		in.called = true
		return in.parameters()
	}
	return errInvoke()
}

// cookie reads ((New-Object System.Net.Cookie("name", "value", "path", "domain"))).
func (in *invocation) cookie() error {
	if err := in.sequence("(", "(", "New-Object", "System.Net.Cookie", "("); err != nil {
		return err
	}
	var parts [4]string
	for i := range parts {
		if i > 0 {
			if err := in.sequence(","); err != nil {
				return err
			}
		}
		part, err := in.quoted()
		if err != nil {
			return err
		}
		parts[i] = part
	}
	one := Cookie{Name: parts[0], Value: secret.New(parts[1]), Path: parts[2], Domain: parts[3]}
	if fault := one.fault(); fault != "" {
		return unparseable("character", "A cookie "+fault+".")
	}
	in.r.jar = append(in.r.jar, one)
	return in.sequence(")", ")", ")")
}

func (in *invocation) parameters() error {
	for len(in.tokens) > 0 && in.tokens[0].kind != tokenEnd {
		name := in.tokens[0]
		if name.kind != tokenBare || !strings.HasPrefix(name.text, "-") {
			return errInvoke()
		}
		in.tokens = in.tokens[1:]
		if err := in.parameter(name.text); err != nil {
			return err
		}
	}
	return nil
}

func (in *invocation) parameter(name string) error {
	switch strings.ToLower(name) {
	case "-usebasicparsing":
		return nil
	case "-websession":
		return in.sequence("$session")
	case "-headers":
		return in.headers()
	case "-method", "-contenttype":
		_, err := in.quoted()
		return err
	case "-body":
		return in.body()
	case "-uri":
		uri, err := in.quoted()
		in.r.urls = append(in.r.urls, uri)
		return err
	case "-useragent":
		agent, err := in.quoted()
		in.r.agent = agent
		return err
	}
	return unsupported("The option " + knownParameter(name) + " is not supported.")
}

// body passes over the text that is sent, in either of Chrome's forms.
func (in *invocation) body() error {
	bytes := in.takes(tokenMark, "(")
	if bytes {
		if err := in.sequence("[System.Text.Encoding]::UTF8.GetBytes", "("); err != nil {
			return err
		}
	}
	if _, err := in.quoted(); err != nil {
		return err
	}
	if bytes {
		return in.sequence(")", ")")
	}
	return nil
}

// headers reads @{ "name"="value" ... }, one per line or behind semicolons.
func (in *invocation) headers() error {
	if err := in.sequence("@{"); err != nil {
		return err
	}
	for !in.takes(tokenMark, "}") {
		if in.takes(tokenEnd, "") {
			continue
		}
		name, err := in.quoted()
		if err != nil {
			return err
		}
		if err := in.sequence("="); err != nil {
			return err
		}
		value, err := in.quoted()
		if err != nil {
			return err
		}
		if slices.Contains(pseudo(), strings.ToLower(name)) {
			continue
		}
		if err := in.r.header(name, value); err != nil {
			return err
		}
	}
	return nil
}

// pseudo are the names of HTTP/2's own that Chrome lists among the headers, without their colon.
func pseudo() []string { return []string{"authority", "method", "path", "scheme"} }

// knownParameter names a parameter, if PowerShell knows it; see known.
func knownParameter(name string) string {
	for _, one := range strings.Fields(parameters) {
		if strings.EqualFold(name, "-"+one) {
			return "-" + one
		}
	}
	return "that PowerShell does not know either"
}

// parameters are those of Invoke-WebRequest that we refuse.
const parameters = `AllowInsecureRedirect AllowUnencryptedAuthentication Authentication Certificate CertificateThumbprint
ConnectionTimeoutSeconds Credential CustomMethod DisableKeepAlive FollowRelLink Form HttpVersion InFile MaximumFollowRelLink
MaximumRedirection MaximumRetryCount NoProxy OperationTimeoutSeconds OutFile PassThru PreserveAuthorizationOnRedirect
PreserveHttpMethodOnRedirect Proxy ProxyCredential ProxyUseDefaultCredentials Resume RetryIntervalSec SessionVariable
SkipCertificateCheck SkipHeaderValidation SkipHttpErrorCheck SslProtocol TimeoutSec Token TransferEncoding UnixSocket
UseDefaultCredentials Verbose Debug ErrorAction OutVariable`
