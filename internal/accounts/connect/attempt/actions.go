package attempt

// Values of NextActions.
const (
	ActPoll     = "poll"
	ActCode     = "submit_code"
	ActResend   = "resend_code"
	ActMail     = "send_email"
	ActSwitch   = "switch_channel"
	ActPage     = "open_verification_page"
	ActSelfie   = "confirm_selfie"
	ActPhone    = "open_phone_url"
	ActUse      = "use_account"
	ActCancel   = "cancel"
	channelMail = "email"
)

// NextActions lists what a caller can do now, the most useful first.
func (a *Attempt) NextActions() []string {
	list := []string{}
	add := func(when bool, action string) {
		if when && action != "" {
			list = append(list, action)
		}
	}
	unsent := a.Channel == channelMail && !a.Challenge.Sent
	sends := a.Channel == "sms" || a.Channel == channelMail
	switch a.State {
	case Pending:
		add(a.AwaitsConsent(), ActPage)
		add(!a.AwaitsConsent(), ActPoll)
	case AwaitingMobile:
		add(true, ActPhone)
	case NeedsOTP, NeedsApp, NeedsEmail, WrongCode:
		add(!unsent, ActCode)
		add(unsent, ActMail)
		add(sends && !unsent && a.Resends < MaxResends, ActResend)
	case NeedsFace:
		add(true, ActPage)
		add(true, ActSelfie)
	case Success:
		add(true, ActUse)
	case Failed:
		add(a.Failure != nil, meanings[a.failureCode()].action)
	case none:
	}
	add(a.State.Challenge() && len(a.Available) > 1, ActSwitch)
	add(!a.State.Final(), ActCancel)
	return list
}

func (a *Attempt) failureCode() string {
	if a.Failure == nil {
		return ""
	}
	return a.Failure.Code
}
