export const text = "Sends it at once"
