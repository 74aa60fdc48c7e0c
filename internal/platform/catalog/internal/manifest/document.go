package manifest

import "encoding/json"

// Document is a manifest that satisfies the schema. docs/manifest.md explains its keys.
type Document struct {
	// Revision is the fingerprint of all files, as sha256:<hex>.
	Revision  string
	Upstream  Upstream
	Session   Session
	SignIn    SignIn
	Errors    Errors
	Pages     map[string]Page
	Socket    *Socket
	Files     *Files
	Types     []Type
	Events    []Event
	Resources []Resource
}

// Upstream identifies the platform and holds the settings that apply to all of its methods.
type Upstream struct {
	ID, Name, Version, Origin, Base, Isolation, Verify string
	ListSince, PassUnknown                             bool
}

// Session lists the cookies and headers of a session.
type Session struct {
	Cookies struct {
		Required, Kept, Rotates []string
		Owner, Expiry           string
	}
	Headers   struct{ Required, Allowed []string }
	Device    string
	Send      map[string]string
	UserAgent string
}

// Step is one request of the sign-in. A string that starts with $ is replaced by a value of the step, such as $code.
type Step struct {
	HTTP string `json:"http"`
	Body json.RawMessage
	Send map[string]string
}

// SignIn describes the sign-in: its requests, and where to find challenges, QR codes and failures in the responses.
type SignIn struct {
	Credentials                         Step
	Code, Resend, Switch, Check, Logout *Step
	QR                                  *struct {
		Step
		ID, Secret, URL, Expires, Ends string
	} `json:"qr"`
	QRCheck *struct {
		Step
		Status   string
		Statuses map[string]string
	} `json:"qrCheck"`
	Challenge struct {
		At, Token, Channel                          string
		Channels                                    map[string]string
		Available, Mask, Expires, Page, Sent, State string
	}
	Failures []struct {
		Code    int
		Failure string
	}
}

// Errors describes how to classify error responses.
type Errors struct {
	Code, Message, RetryAfter string
	Kinds                     []struct {
		Code, Status Numbers
		Kind         string
	}
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
	Usual                                        bool
}

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
	Name, Summary, Access, HTTP                               string
	Safe, Idempotent, Destructive, Async, Sensitive, Outbound bool
	Args                                                      []*Property
	Send                                                      []Constant
	Result                                                    Result
	Emits                                                     []string
	TimeoutMs, Cost                                           int
	Since, Deprecated                                         string
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
	To, As                string
	Values                []Pair
}
