package contract

// Tone is the meaning of the colour in which a state is shown.
type Tone string

// The tones.
const (
	ToneOK      Tone = "ok"
	ToneInfo    Tone = "info"
	ToneWarn    Tone = "warn"
	ToneBad     Tone = "bad"
	ToneNeutral Tone = "neutral"
)

// tones holds the tone of every state. A state that several things can have has the same tone for all of them.
var tones = map[string]Tone{
	// accounts
	"active": ToneOK, "degraded": ToneWarn, "reconnect_required": ToneBad, "connecting": ToneInfo,
	"reauthenticating": ToneInfo, "restricted": ToneWarn, "paused": ToneNeutral, "disconnected": ToneNeutral,
	// listeners
	"up": ToneOK, "down": ToneBad, "off": ToneNeutral,
	// webhooks
	"healthy": ToneOK, "failing": ToneBad, "disabled": ToneBad,
	"live": ToneOK, "lagging": ToneWarn, "backoff": ToneBad, "draining": ToneInfo,
	// deliveries
	"delivered": ToneOK, "failed": ToneBad,
	// attempts and links
	"pending": ToneInfo, "awaiting_mobile_session": ToneInfo, "needs_otp": ToneInfo, "needs_app_otp": ToneInfo,
	"needs_email": ToneInfo, "needs_face_otp": ToneInfo, "wrong_2fa_code_retry": ToneWarn,
	"completed_success": ToneOK, "completed_failed": ToneBad,
	"open": ToneInfo, "in_progress": ToneInfo, "success": ToneOK, "exited": ToneNeutral, "expired": ToneNeutral,
	// support access
	"requested": ToneWarn, "granted": ToneInfo, "ended": ToneNeutral,
	// the service
	"normal": ToneOK,
}

// ToneOf returns the tone of a state; empty for a value that is not a state.
func ToneOf(state string) Tone { return tones[state] }
