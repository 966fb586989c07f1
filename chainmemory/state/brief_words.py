"""The few fixed words of a brief, in each language it can be asked for; statuses stay the grammar's own."""

from __future__ import annotations

from typing import Final

LANGUAGES: Final = ("en", "de", "es", "ru")

_TABLE: Final = {
    "state": ("Project state", "Projektstand", "Estado del proyecto", "Состояние проекта"),
    "version": ("version", "Version", "versión", "версия"),
    "since": ("changed since version", "geändert seit Version", "cambios desde la versión",
              "изменено с версии"),
    "nothing": ("Nothing has changed.", "Nichts hat sich geändert.", "Nada ha cambiado.",
                "Ничего не изменилось."),
    "more": ("more not shown", "weitere nicht gezeigt", "más sin mostrar", "ещё не показано"),
    "phase": ("Phase", "Phase", "Fase", "Фаза"),
    "current_focus": ("Current focus", "Aktueller Fokus", "Foco actual", "Текущий фокус"),
    "vision": ("Vision", "Vision", "Visión", "Видение"),
    "priorities": ("Priorities, by rank", "Prioritäten, nach Rang", "Prioridades, por rango",
                   "Приоритеты, по рангу"),
    "risks": ("Risks", "Risiken", "Riesgos", "Риски"),
    "decisions": ("Decisions", "Entscheidungen", "Decisiones", "Решения"),
    "constraints": ("Constraints", "Randbedingungen", "Restricciones", "Ограничения"),
    "open_questions": ("Open questions", "Offene Fragen", "Preguntas abiertas", "Открытые вопросы"),
    "assumptions": ("Assumptions", "Annahmen", "Supuestos", "Допущения"),
    "milestones": ("Milestones", "Meilensteine", "Hitos", "Вехи"),
    "environment.rules": ("Rules", "Regeln", "Reglas", "Правила"),
    "environment.hosts": ("Hosts", "Hosts", "Hosts", "Хосты"),
    "environment.services": ("Services", "Dienste", "Servicios", "Сервисы"),
    "environment.repositories": ("Repositories", "Repositorys", "Repositorios", "Репозитории"),
    "metrics": ("Metrics", "Metriken", "Métricas", "Метрики"),
    "vocabulary": ("Vocabulary", "Begriffe", "Vocabulario", "Словарь"),
    "ended": ("No longer current", "Nicht mehr aktuell", "Ya no vigente", "Больше не актуально"),
    "by": ("by", "durch", "por", "заменено на"),
    "due": ("due", "fällig", "para", "срок"),
    "against": ("against", "gegen", "contra", "против"),
    "done_when": ("done when", "fertig, wenn", "hecho cuando", "готово, когда"),
    "answer": ("answer", "Antwort", "respuesta", "ответ"),
    "reason": ("reason", "Grund", "motivo", "причина"),
}  # fmt: skip

WORDS: Final = {
    language: {key: row[column] for key, row in _TABLE.items()} for column, language in enumerate(LANGUAGES)
}
