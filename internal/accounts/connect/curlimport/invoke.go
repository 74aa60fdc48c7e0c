package curlimport

import (
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// invocation parses Chrome's "Copy as PowerShell": a few lines that fill $session, then Invoke-WebRequest.
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
		if err := in.readStatement(); err != nil {
			return nil, err
		}
		if len(in.tokens) > 0 && !in.accept(tokenEnd, "") {
			return nil, errInvoke()
		}
	}
	if !in.called {
		return nil, unparseable("syntax", "The text has no Invoke-WebRequest. Copy the whole command.")
	}
	return in.r, nil
}

func errInvoke() error {
	return unparseable("syntax", "The text does not have the form of Chrome's Copy as PowerShell.")
}

// accept consumes the next token if it is this one. PowerShell ignores the case of bare words.
func (in *invocation) accept(kind tokenKind, text string) bool {
	if len(in.tokens) == 0 || in.tokens[0].kind != kind || kind != tokenQuoted && !strings.EqualFold(in.tokens[0].text, text) {
		return false
	}
	in.tokens = in.tokens[1:]
	return true
}

// expect consumes bare words and marks, or fails.
func (in *invocation) expect(texts ...string) error {
	for _, text := range texts {
		if !in.accept(tokenBare, text) && !in.accept(tokenMark, text) {
			return errInvoke()
		}
	}
	return nil
}

func (in *invocation) expectQuoted() (string, error) {
	if len(in.tokens) == 0 || in.tokens[0].kind != tokenQuoted {
		return "", errInvoke()
	}
	text := in.tokens[0].text
	in.tokens = in.tokens[1:]
	return text, nil
}

func (in *invocation) readStatement() error {
	switch {
	case in.called:
		return unparseable("syntax", notOne)
	case in.accept(tokenBare, "$session"):
		return in.expect("=", "New-Object", "Microsoft.PowerShell.Commands.WebRequestSession")
	case in.accept(tokenBare, "$session.UserAgent"):
		if err := in.expect("="); err != nil {
			return err
		}
		agent, err := in.expectQuoted()
		in.r.agent = agent
		return err
	case in.accept(tokenBare, "$session.Cookies.Add"):
		return in.readCookie()
	case in.accept(tokenBare, "Invoke-WebRequest"), in.accept(tokenBare, "Invoke-RestMethod"):
		in.called = true
		return in.readParameters()
	}
	return errInvoke()
}

// readCookie reads ((New-Object System.Net.Cookie("name", "value", "path", "domain"))).
func (in *invocation) readCookie() error {
	if err := in.expect("(", "(", "New-Object", "System.Net.Cookie", "("); err != nil {
		return err
	}
	var parts [4]string
	for i := range parts {
		if i > 0 {
			if err := in.expect(","); err != nil {
				return err
			}
		}
		part, err := in.expectQuoted()
		if err != nil {
			return err
		}
		parts[i] = part
	}
	one := Cookie{Name: parts[0], Value: secret.New(parts[1]), Path: parts[2], Domain: parts[3]}
	if fault := one.invalidReason(); fault != "" {
		return unparseable("character", "A cookie "+fault+".")
	}
	in.r.jar = append(in.r.jar, one)
	return in.expect(")", ")", ")")
}

func (in *invocation) readParameters() error {
	for len(in.tokens) > 0 && in.tokens[0].kind != tokenEnd {
		name := in.tokens[0]
		if name.kind != tokenBare || !strings.HasPrefix(name.text, "-") {
			return errInvoke()
		}
		in.tokens = in.tokens[1:]
		if err := in.readParameter(name.text); err != nil {
			return err
		}
	}
	return nil
}

func (in *invocation) readParameter(name string) error {
	switch strings.ToLower(name) {
	case "-usebasicparsing":
		return nil
	case "-websession":
		return in.expect("$session")
	case "-headers":
		return in.readHeaders()
	case "-method", "-contenttype":
		_, err := in.expectQuoted()
		return err
	case "-body":
		return in.skipBody()
	case "-uri":
		uri, err := in.expectQuoted()
		in.r.urls = append(in.r.urls, uri)
		return err
	case "-useragent":
		agent, err := in.expectQuoted()
		in.r.agent = agent
		return err
	}
	return unsupported("The option " + parameterName(name) + " is not supported.")
}

// skipBody skips the request body, in either of Chrome's forms.
func (in *invocation) skipBody() error {
	bytes := in.accept(tokenMark, "(")
	if bytes {
		if err := in.expect("[System.Text.Encoding]::UTF8.GetBytes", "("); err != nil {
			return err
		}
	}
	if _, err := in.expectQuoted(); err != nil {
		return err
	}
	if bytes {
		return in.expect(")", ")")
	}
	return nil
}

// readHeaders reads @{ "name"="value" ... }, one per line or separated by semicolons.
func (in *invocation) readHeaders() error {
	if err := in.expect("@{"); err != nil {
		return err
	}
	for !in.accept(tokenMark, "}") {
		if in.accept(tokenEnd, "") {
			continue
		}
		name, err := in.expectQuoted()
		if err != nil {
			return err
		}
		if err := in.expect("="); err != nil {
			return err
		}
		value, err := in.expectQuoted()
		if err != nil {
			return err
		}
		if slices.Contains(pseudoHeaders(), strings.ToLower(name)) {
			continue
		}
		if err := in.r.addHeader(name, value); err != nil {
			return err
		}
	}
	return nil
}

// pseudoHeaders returns the pseudo-headers of HTTP/2 that Chrome lists among the headers, without their colon.
func pseudoHeaders() []string { return []string{"authority", "method", "path", "scheme"} }

// parameterName returns the name of a refused parameter for an error, if it is one of PowerShell's; see optionName.
func parameterName(name string) string {
	for _, one := range strings.Fields(refusedParameters) {
		if strings.EqualFold(name, "-"+one) {
			return "-" + one
		}
	}
	return "that is unknown to PowerShell"
}

// refusedParameters lists the parameters of Invoke-WebRequest that are refused by name.
const refusedParameters = `AllowInsecureRedirect AllowUnencryptedAuthentication Authentication Certificate CertificateThumbprint
ConnectionTimeoutSeconds Credential CustomMethod DisableKeepAlive FollowRelLink Form HttpVersion InFile MaximumFollowRelLink
MaximumRedirection MaximumRetryCount NoProxy OperationTimeoutSeconds OutFile PassThru PreserveAuthorizationOnRedirect
PreserveHttpMethodOnRedirect Proxy ProxyCredential ProxyUseDefaultCredentials Resume RetryIntervalSec SessionVariable
SkipCertificateCheck SkipHeaderValidation SkipHttpErrorCheck SslProtocol TimeoutSec Token TransferEncoding UnixSocket
UseDefaultCredentials Verbose Debug ErrorAction OutVariable`
