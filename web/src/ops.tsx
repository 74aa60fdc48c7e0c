// The operator console. All of it is in src/ops; this entry only starts it.
import { start } from './ops/app'
import './styles.css'

start()
