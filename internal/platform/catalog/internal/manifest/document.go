package manifest

import "encoding/json"

// Document is a manifest that satisfies the schema. docs/manifest.md explains its keys.
type Document struct {
	// Revision is the fingerprint of all files, as sha256:<hex>.
	Revision string
	// Logo is an SVG image, or nil if there is none.
	Logo      []byte
	Upstream  Upstream
	Session   Session
	SignIn    SignIn
	Errors    Errors
	Pages     map[string]Page
	Socket    *Socket
	Poll      *Poll
	Files     *Files
	Types     []Type
	Events    []Event
	Resources []Resource
}

// Upstream identifies the platform and holds the settings that apply to all of its methods.
type Upstream struct {
	ID, Name, Version, Environment, Home, Origin, Base, Isolation, Verify string
	// IDs is the pattern of ids that are texts. It is empty if ids are numbers.
	IDs string
	// Site is nil if all accounts are on Origin.
	Site                   *struct{ Check, ID, Title, Example string }
	ListSince, PassUnknown bool
}

// Session lists the cookies and headers of a session.
type Session struct {
	Cookies struct {
		Required, Kept, Rotates, Remember []string
		Owner, Expiry                     string
	}
	Headers   struct{ Required, Allowed []string }
	Device    string
	Send      map[string]string
	UserAgent string
	// JWT is nil if the platform issues no keys to programs.
	JWT *JWT `json:"jwt"`
}

// JWT describes a key that the platform issues to programs, and the signed token that each request carries instead.
type JWT struct {
	Name, Where, Form, Encoding, Algorithm, Header, Scheme, Audience, Lifetime, Verify string
	// Omit lists headers of Session.Send that are not sent with a token.
	Omit []string
}

// Step is one request of the sign-in. A string that starts with $ is replaced by a value of the step, such as $code.
type Step struct {
	HTTP string `json:"http"`
	Body json.RawMessage
	Send map[string]string
}

// SignIn describes the sign-in: its requests, and where to find challenges, QR codes and failures in the responses.
type SignIn struct {
	// Credentials is nil if there is no sign-in with e-mail and password.
	Credentials, Code, Resend, Switch, Check, Logout *Step
	QR                                               *struct {
		Step
		ID, Secret, URL, Expires, Ends string
	} `json:"qr"`
	QRCheck *struct {
		Step
		Status   string
		Statuses map[string]string
	} `json:"qrCheck"`
	// Challenge is nil on a platform that signs in with the credentials alone.
	Challenge *Challenge
	Failures  []struct {
		Matcher
		Step, Failure string
	}
	OAuth *OAuth `json:"oauth"`
}

// OAuth describes the sign-in by OAuth 2.0.
type OAuth struct {
	Authorize, Token, Revoke string
	// Hosts lists the hosts of those of the three that are URLs. The others are paths on the origin.
	Hosts, Scopes []string
	// Client is basic or body.
	Client string
	// Ended is nil for invalid_grant only.
	Ended []string
	Send  map[string]string
}

// Challenge has either the paths of a challenge in the response, or Code, By and Lasts.
type Challenge struct {
	At, Token, Channel                          string
	Channels                                    map[string]string
	Available, Mask, Expires, Page, Sent, State string

	Code      Codes
	By, Lasts string
}

// Errors describes how to classify error responses.
type Errors struct {
	Code                        Paths
	Message, Detail, RetryAfter string
	Kinds                       []struct {
		Matcher
		Kind string
	}
}

// Matcher holds the conditions of a rule about error responses, all of which must hold. An empty condition always
// holds. RetryAfter is in seconds, or 0 if the rule does not say how long to wait.
type Matcher struct {
	Code   Codes
	Status Numbers
	// Message is a whole message, or the beginning of one followed by *.
	Message    string
	RetryAfter int
}

// Codes is a list of error codes, texts or integers, that may be written as a single one.
type Codes []string

// UnmarshalJSON accepts an array of strings and integers, or a single one.
func (c *Codes) UnmarshalJSON(text []byte) error {
	list := []json.RawMessage{text}
	if len(text) > 0 && text[0] == '[' {
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
	}
	for _, item := range list {
		code := string(item)
		if len(item) > 0 && item[0] == '"' {
			if err := json.Unmarshal(item, &code); err != nil {
				return err
			}
		}
		*c = append(*c, code)
	}
	return nil
}

// Paths is a list of paths that may be written as a single one.
type Paths []string

// UnmarshalJSON accepts an array or a single string.
func (p *Paths) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(p))
	}
	*p = Paths{""}
	return json.Unmarshal(text, &(*p)[0])
}

// Numbers is a list of integers that may be written as a single integer.
type Numbers []int

// UnmarshalJSON accepts an array or a single integer.
func (n *Numbers) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]int)(n))
	}
	*n = Numbers{0}
	return json.Unmarshal(text, &(*n)[0])
}

// Page is a paging style: where a page has its items and cursor, and how to request the next one.
type Page struct {
	Items, More, Next, NextOfLast, Cursor, Limit string
	// Number, At and Last are for numbered pages: where the number of the wanted page goes, and where the response has
	// its own number and that of the last page.
	Number, At, Last string
	Usual            bool
}

// Paged reports whether the style has pages. Other styles return the whole list.
func (p *Page) Paged() bool { return p.Cursor != "" || p.Number != "" }

// Socket describes the WebSocket that delivers live frames.
type Socket struct {
	Path  string
	Frame struct{ ID, Name, At, Body string }
	Ping  string
	Since *struct {
		HTTP                                       string `json:"http"`
		Cursor, Limit, Items, More, Complete, Last string
	}
	Ended []int
}

// Poll describes how to ask for events.
type Poll struct {
	Every, Idle string
	Feeds       []Feed
}

// Feed is a list of the platform that contains new events.
type Feed struct {
	Name, Every, HTTP   string
	Query               map[string]string
	Times, Items, Order string
	Key                 Paths
	// Frame has either Name, a path, or As, the name of all frames of the feed.
	Frame   struct{ Name, As, At, Body string }
	Overlap string
	Limit   int
	// Credentials lists what can read the feed; empty for all.
	Credentials []string
}

// Files lists the folders that contain files, and the methods that return their URLs.
type Files struct {
	At       []string
	Cookies  bool
	Download *struct{ Method, ID, Quality, URL string }
	Upload   *struct {
		Begin  struct{ Method, Name, Size, Type, SHA256, ID, PartSize string }
		Part   struct{ Method, ID, Number, URL, Headers string }
		Finish struct{ Method, ID, Parts, Number, ETag string }
	}
	Forms []Form
}

// Form is a method that takes a whole file of certain types.
type Form struct {
	Method, Field, URL string
	Types              []string
}

// Type is a named shape of results.
type Type struct {
	Pos
	Name   string
	Fields []*Field
}

// Field is one member of a shape, or the item of an array.
type Field struct {
	Pos
	Name     string
	Nullable bool
	// From is nil if the path follows from the name.
	From *string
	// Type, As, Of, Items, Fields, Const and Values define the field; exactly one is set, except that Type may
	// accompany Values.
	Type, As, Of string
	Items        *Field
	Fields       []*Field
	Const        json.RawMessage
	Values       []Pair
	Default      json.RawMessage

	Format, Role, Description string
}

// Pair is one value of an enumeration: our text, and the platform's value as JSON.
type Pair struct {
	Ours   string
	Theirs json.RawMessage
}

// Event is a kind of event and the frames that it is made from.
type Event struct {
	Pos
	Kind, Summary, Class string
	// EverySec is the minimum interval between two ephemeral events of an account, in seconds; 0 if not set.
	EverySec int
	Frames   []string
	When     []Condition
	// Of names the type of the whole data. If it is empty, Data lists the fields.
	Of   string
	Data []*Field
}

// Condition requires a value at a path of a frame's body.
type Condition struct {
	Path string
	Want json.RawMessage
}

// Resource is a group of methods.
type Resource struct {
	Pos
	Name, Summary string
	Methods       []*Method
}

// Method is one method of a resource.
type Method struct {
	Pos
	Name, Summary, Access, HTTP string
	// Root is the member of requests and responses that holds the object, as the only item of an array, or empty.
	Root string
	// Credentials lists what can call the method; empty for all.
	Credentials                                                       []string
	Safe, Upload, Idempotent, Destructive, Async, Sensitive, Outbound bool
	Args                                                              []*Property
	Send                                                              []Constant
	Result                                                            Result
	Emits                                                             []string
	TimeoutMs, Cost                                                   int
	Since, Deprecated                                                 string
	// Example is nil if there is none.
	Example json.RawMessage
}

// Constant is a value that is sent with every call.
type Constant struct {
	Pos
	To    string
	Value json.RawMessage
}

// Result describes how a response is mapped. Exactly one of Of, Page and Fields is set.
type Result struct {
	Pos
	Of, Page, Style string
	From            *string
	Fields          []*Field
}

// Property is an argument, a member of an object argument, or the item of an array argument.
type Property struct {
	Pos
	Name     string
	Required bool
	// ID is set for $ref: Id, an identifier of the platform.
	ID                    bool
	Type, Format, Pattern string
	Description           string
	Enum                  []json.RawMessage
	Default               json.RawMessage
	MinLength, MaxLength  *int
	Minimum, Maximum      *int64
	MinItems, MaxItems    *int
	UniqueItems           bool
	Items                 *Property
	Properties            []*Property
	// To lists the places to which the value is sent.
	To     []string
	As     string
	Values []Pair
}
